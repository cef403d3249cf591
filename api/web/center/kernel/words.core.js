/** The labels of states, cause tags and timed work. Made by `make pages` from core; a test keeps them current. */

// Payment state -> English label.
export const PAYMENTS = {
  pending: "waiting for payment",
  confirmed: "paid",
  consumed: "earned",
  failed_pairing: "paid, no chat",
  abandoned: "given up",
  expired: "not paid in time",
};

// Session state -> English label.
export const SESSIONS = {
  searching: "searching",
  active: "active",
  expired: "time is up",
  closing: "closing",
  completed: "completed",
  cancelled: "cancelled by the customer",
  failed: "no mitra found",
};

// Refund state -> English label.
export const REFUNDS = {
  requested: "requested",
  pending: "at the gateway",
  succeeded: "paid back",
  failed: "failed",
};

// Session states that an operator can end.
export const ENDABLE = ["searching", "active", "expired"];

// Cause tag -> English label.
export const CAUSES = {
  no_mitra_available: "no mitra available",
  all_mitras_rejected: "all mitras rejected",
  targeted_mitra_offline: "chosen mitra offline",
  targeted_mitra_rejected: "chosen mitra rejected",
  targeted_mitra_timeout: "chosen mitra did not answer",
  payment_session_expired: "payment came too late",
  payment_short: "paid too little",
  customer_cancelled: "customer cancelled",
  extension_rejected: "extension rejected",
  extension_safeguard_tripped: "extension too late",
};

// English text -> Indonesian text.
export const CORE_WORDS = {
  "waiting for payment": "menunggu uang",
  paid: "dibayar",
  earned: "menjadi pendapatan",
  "paid, no chat": "dibayar, tanpa obrolan",
  "given up": "ditinggalkan",
  "not paid in time": "tidak dibayar tepat waktu",
  searching: "mencari",
  active: "aktif",
  "time is up": "waktu habis",
  closing: "berpamitan",
  completed: "selesai",
  "cancelled by the customer": "ditinggalkan pelanggan",
  "no mitra found": "tidak ada mitra",
  requested: "diminta",
  "at the gateway": "di gateway",
  "paid back": "sudah dikembalikan",
  failed: "gagal",
  "no mitra available": "tidak ada mitra tersedia",
  "all mitras rejected": "semua mitra menolak",
  "chosen mitra offline": "mitra pilihan luring",
  "chosen mitra rejected": "mitra pilihan menolak",
  "chosen mitra did not answer": "mitra pilihan tidak menjawab",
  "payment came too late": "uang datang terlambat",
  "paid too little": "bayar kurang",
  "customer cancelled": "pelanggan pergi",
  "extension rejected": "perpanjangan ditolak",
  "extension too late": "perpanjangan terlambat",
  "session expiry": "akhir sesi",
  "session warning": "peringatan sesi",
  "session grace": "masa pamit sesi",
  "pairing round": "putaran pencarian",
  "pairing wave": "gelombang pencarian",
  "extension answer": "jawaban perpanjangan",
  "time credit": "pengembalian waktu",
  "payment expiry": "batas waktu pembayaran",
  "pairing start": "awal pencarian",
};

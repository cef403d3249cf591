/** The labels of states, cause tags, results and timed work. Made by `make pages` from core; a test keeps them current. */

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
  cancelled: "cancelled",
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

// Sub-cause -> English label.
export const SUB_CAUSES = {
  late: "payment came too late",
  given_up: "paid after giving up",
  double: "paid twice",
  live_session: "paid during another session",
  discount_used: "discount already used",
  erased: "customer erased",
  by_operator: "ended by an operator",
  rejected: "extension rejected",
  not_answered: "extension not answered",
  session_ended: "session ended first",
  mitra_inactive: "mitra deactivated",
};

// Result of a call of the gateway -> English label.
export const RESULTS = {
  confirmed: "confirmed",
  duplicate: "duplicate",
  late_payment_recorded: "late payment recorded",
  paid_not_pairable: "paid, can't be paired",
  expired: "expired",
  refund_succeeded: "refund succeeded",
  refund_failed: "refund failed",
  ignored_status: "status ignored",
  ignored_non_uuid_external_id: "not ours (id)",
  ignored_foreign_app: "another app's",
  unknown_external_id: "unknown payment",
  conflict: "conflict",
  unauthorized: "invalid token",
  flood: "many with an invalid token",
  invalid_payload: "unreadable",
  error: "error",
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
  cancelled: "dibatalkan",
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
  "paid after giving up": "bayar setelah ditinggalkan",
  "paid twice": "bayar dua kali",
  "paid during another session": "bayar saat ada sesi lain",
  "discount already used": "diskon sudah terpakai",
  "customer erased": "data pelanggan dihapus",
  "ended by an operator": "diakhiri operator",
  "extension not answered": "perpanjangan tidak dijawab",
  "session ended first": "sesi lebih dulu berakhir",
  "mitra deactivated": "mitra dinonaktifkan",
  confirmed: "dikonfirmasi",
  duplicate: "ganda",
  "late payment recorded": "pembayaran terlambat dicatat",
  "paid, can't be paired": "dibayar, tidak dapat dipasangkan",
  expired: "kedaluwarsa",
  "refund succeeded": "pengembalian berhasil",
  "refund failed": "pengembalian gagal",
  "status ignored": "status diabaikan",
  "not ours (id)": "bukan milik kita (id)",
  "another app's": "milik aplikasi lain",
  "unknown payment": "pembayaran tidak dikenal",
  conflict: "bentrok",
  "invalid token": "tanpa token yang sah",
  "many with an invalid token": "banyak tanpa token yang sah",
  unreadable: "tidak terbaca",
  error: "galat",
  "session expiry": "akhir sesi",
  "session warning": "peringatan sesi",
  "session grace": "masa pamit sesi",
  "pairing round": "putaran pencarian",
  "pairing wave": "gelombang pencarian",
  "extension answer": "jawaban perpanjangan",
  "time credit": "pengembalian waktu",
  "price start": "awal harga",
  "payment expiry": "batas waktu pembayaran",
  "pairing start": "awal pencarian",
};

/** The labels of states and the texts of cause tags. Made by `make pages` from core; a test keeps them current. */

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
  "no mitra available": "tidak ada mitra tersedia",
  "The customer paid, but no mitra accepted before the search ended.":
    "Pelanggan membayar, tetapi tidak ada mitra yang menerima sebelum pencarian berakhir.",
  "all mitras rejected": "semua mitra menolak",
  "The customer paid, but every invited mitra rejected the request.":
    "Pelanggan membayar, dan setiap mitra yang diminta menolak.",
  "chosen mitra offline": "mitra pilihan luring",
  "The customer paid for a chosen mitra who was by then offline, at capacity or inactive.":
    "Pelanggan membayar untuk kembali ke mitra yang saat itu luring, penuh atau nonaktif.",
  "chosen mitra rejected": "mitra pilihan menolak",
  "The customer paid for a chosen mitra who rejected the request.":
    "Pelanggan membayar untuk kembali ke mitra yang menolak.",
  "chosen mitra did not answer": "mitra pilihan tidak menjawab",
  "The customer paid for a chosen mitra who did not answer in time.":
    "Pelanggan membayar untuk kembali ke mitra yang tidak menjawab tepat waktu.",
  "payment came too late": "uang datang terlambat",
  "The payment arrived when the request could no longer become a chat: it came too late, another session or payment was in progress, or its discount had been used elsewhere.":
    "Uang datang ketika permintaan ini tidak bisa lagi menjadi obrolan: terlambat, bersamaan dengan sesi atau pembayaran lain, atau diskonnya sudah terpakai.",
  "customer cancelled": "pelanggan pergi",
  "The customer paid and cancelled before a mitra accepted.": "Pelanggan membayar lalu pergi sebelum mitra datang.",
  "extension rejected": "perpanjangan ditolak",
  "The customer paid for an extension, and the mitra rejected it or did not answer in time.":
    "Pelanggan membayar tambahan menit, dan mitra menolak, atau diamnya dianggap menolak.",
  "extension too late": "perpanjangan terlambat",
  "The customer paid for an extension, but the session had ended, the payment came too late, or another extension was in progress.":
    "Pelanggan membayar tambahan menit untuk sesi yang sudah berakhir atau diakhiri sebelum sempat dimulai; atau uangnya terlambat, atau bersamaan dengan perpanjangan lain.",
};

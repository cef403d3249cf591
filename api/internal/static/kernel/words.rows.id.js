/** English text -> Indonesian text, for the configuration rows: their units, choices and meanings. */

export const ROWS = {
  sessions: "sesi",
  requests: "permintaan",
  codes: "kode",
  invoices: "faktur",
  extensions: "perpanjangan",
  seconds: "detik",
  attempts: "percobaan",
  minutes: "menit",
  auto_approve: "setujui otomatis",
  reject: "tolak",
  "Concurrent active sessions of a mitra.": "Sesi aktif seorang mitra pada saat yang sama.",
  "OTP requests for a phone in an hour.": "Permintaan OTP per telepon dalam sejam.",
  "Codes to customers in an hour, of the whole service; half are kept for phones with an account. 0: no limit.":
    "Kode untuk pelanggan dalam sejam, seluruh layanan; separuhnya disisihkan untuk telepon yang sudah punya akun. 0: tanpa batas.",
  "Anonymous sign-ins from an address in an hour.": "Masuk anonim dari satu alamat dalam sejam.",
  "OTP requests from an address in an hour.": "Permintaan OTP dari satu alamat dalam sejam.",
  "Wait before a code is sent again.": "Jeda sebelum kode dikirim lagi.",
  "Tries to verify one code.": "Percobaan memeriksa satu kode.",
  "Failed operator logins before a lockout.": "Gagal masuk operator sebelum terkunci.",
  "How long a lockout lasts.": "Lama terkunci.",
  "Failed logins with one e-mail from all addresses before new addresses are locked out.":
    "Gagal masuk dengan satu e-mail dari semua alamat sebelum alamat baru dikunci.",
  "How long a lockout of new addresses lasts.": "Lama alamat baru terkunci.",
  "Whether silent mitras are taken offline.": "Apakah mitra yang diam dijadikan luring.",
  "Silence after which a mitra is offline.": "Lama diam sebelum mitra menjadi luring.",
  "Vestigial.": "Sisa lama.",
  "The first-session discount is only for customers with a verified phone or an identity.":
    "Diskon sesi pertama hanya untuk pelanggan dengan telepon terverifikasi atau identitas.",
  "Lifetime of a payment request.": "Masa berlaku permintaan pembayaran.",
  "Invoices in an hour for an account that never paid; 0: no limit.":
    "Faktur dalam sejam untuk akun yang belum pernah membayar; 0: tanpa batas.",
  "Invoices in an hour for the accounts of an address that never paid; 0: no limit.":
    "Faktur dalam sejam untuk akun-akun satu alamat yang belum pernah membayar; 0: tanpa batas.",
  "A mitra's time to answer a returning customer.": "Waktu mitra menjawab pelanggan yang kembali.",
  "One round of a blast; rounds go on until the search ends.": "Satu putaran; berulang sampai pencarian berakhir.",
  "A mitra's time to answer an extension.": "Waktu mitra menjawab perpanjangan.",
  "Approved extensions of a session; 0: no limit.": "Perpanjangan sesi yang disetujui; 0: tanpa batas.",
  "What happens when a mitra does not answer an extension.": "Yang terjadi bila mitra tidak menjawab perpanjangan.",
  "How long a search lasts, even with no mitra eligible.":
    "Lama pencarian, juga saat tak ada mitra yang bisa diundang.",
  "Whether a mitra may end a session early.": "Apakah mitra boleh mengakhiri sesi lebih awal.",
  "Whether a customer may end a session early.": "Apakah pelanggan boleh mengakhiri sesi lebih awal.",
  "Apps ask twice before an end.": "Aplikasi bertanya dua kali sebelum mengakhiri.",
  "Whether the warning at 180 s is given.": "Apakah peringatan pada 180 detik diberikan.",
  "Apps and invoices list QRIS first; otherwise invoices list it last.":
    "Aplikasi dan faktur menaruh QRIS paling atas; bila tidak, faktur menaruhnya paling bawah.",
  "The mitra app asks before a flip.": "Aplikasi mitra bertanya sebelum topik diganti.",
  "A sensitive session can't be made regular again.": "Sesi sensitif tetap sensitif.",
  "Legacy free trial.": "Uji coba gratis yang lama.",
  "Has no effect.": "Tidak berpengaruh.",
  "Legacy tier list; prices are in pricing_tiers.": "Daftar harga lama; harga ada di pricing_tiers.",
  "Contacts of the admin-help sheet: label and deeplink each.":
    "Kontak lembar bantuan: label dan tautan masing-masing.",
};

/** English text -> Indonesian text, for the configuration rows: their names, units, choices and meanings. */

export const ROWS = {
  // Names of settings: their keys, in words.
  "no reply minutes": "menit tanpa balasan",
  "max customers per mitra": "pelanggan per mitra paling banyak",
  "otp max per phone per hour": "kode per telepon per jam paling banyak",
  "otp max per ip per hour": "kode per alamat per jam paling banyak",
  "otp max per hour": "kode per jam paling banyak",
  "anonymous max per address per hour": "masuk anonim per alamat per jam paling banyak",
  "otp resend cooldown seconds": "jeda kirim ulang kode",
  "otp verify max attempts": "percobaan kode paling banyak",
  "cc login max attempts": "percobaan masuk operator paling banyak",
  "cc login lockout minutes": "lama operator terkunci",
  "cc login lockout scope": "lingkup kunci operator",
  "cc login max attempts everywhere": "percobaan masuk operator dari semua alamat",
  "cc login lockout everywhere minutes": "lama alamat baru terkunci",
  "require mitra ping": "mitra wajib memberi kabar",
  "mitra stale after seconds": "mitra luring setelah diam",
  "reachability probe": "pemeriksaan ponsel mitra",
  "mitra ping interval seconds": "selang kabar mitra",
  "payment session timeout minutes": "batas waktu pembayaran",
  "invoices max per account per hour": "faktur per akun per jam paling banyak",
  "invoices max per address per hour": "faktur per alamat per jam paling banyak",
  "returning chat confirmation timeout seconds": "batas waktu jawaban mitra pilihan",
  "pairing blast timeout seconds": "lama putaran pencarian",
  "blast size": "ukuran gelombang pencarian",
  "blast wave seconds": "jeda gelombang pencarian",
  "peer absent seconds": "pihak dianggap pergi setelah diam",
  "extension timeout seconds": "batas waktu jawaban perpanjangan",
  "max extensions per session": "perpanjangan per sesi paling banyak",
  "extension default action on timeout": "perpanjangan tanpa jawaban",
  "searching timeout minutes": "lama pencarian",
  "failure due hours": "tenggat gagal dipasangkan",
  "early end mitra enabled": "mitra boleh mengakhiri lebih awal",
  "early end customer enabled": "pelanggan boleh mengakhiri lebih awal",
  "end session two step confirm": "konfirmasi dua langkah saat mengakhiri",
  "three minute warning enabled": "peringatan tiga menit",
  "payment method qris first": "QRIS di urutan pertama",
  "sensitive flip confirmation enabled": "konfirmasi perubahan sensitivitas",
  "sensitive flag one way latch": "sensitif tetap sensitif",
  "first session discount requires identity": "diskon sesi pertama perlu identitas",
  "fair clock": "waktu yang adil",
  "fair clock max seconds": "waktu dikembalikan paling banyak",
  "refuse unservable payments": "tolak pembayaran yang tak terlayani",
  "minimum version android": "versi Android tertua",
  "minimum version ios": "versi iOS tertua",
  "minimum version web": "versi web tertua",
  maintenance: "pemeliharaan",
  "retention webhook days": "lama simpan panggilan webhook",
  "retention invalid webhook days": "lama simpan panggilan tanpa token sah",
  "retention messages days": "lama simpan pesan",
  "retention otp days": "lama simpan permintaan kode",
  "retention ended auth sessions days": "lama simpan sesi masuk yang berakhir",
  "retention unused anonymous days": "lama simpan pelanggan anonim",
  "free trial enabled": "uji coba gratis",
  "free trial duration minutes": "lama uji coba gratis",
  anonymity: "anonimitas",
  "price tiers": "daftar harga",
  "support handles": "kontak bantuan",

  sessions: "sesi",
  requests: "permintaan",
  codes: "kode",
  invoices: "faktur",
  extensions: "perpanjangan",
  seconds: "detik",
  attempts: "percobaan",
  minutes: "menit",
  hours: "jam",
  days: "hari",
  auto_approve: "setujui otomatis",
  reject: "tolak",
  address: "alamat",
  "Concurrent active sessions of a mitra.": "Sesi aktif seorang mitra pada saat yang sama.",
  "OTP requests for a phone number in an hour, of customers and mitras together.":
    "Permintaan OTP per telepon dalam sejam, dari pelanggan dan mitra bersama-sama.",
  "Codes sent to all customers in an hour; strangers get half of them, and known callers are never refused. 0: no limit.":
    "Kode untuk pelanggan dalam sejam, seluruh layanan; orang yang belum dikenal mendapat separuhnya, dan yang dikenal tidak pernah ditolak. 0: tanpa batas.",
  "Anonymous sign-ins from an address in an hour; ten times as many from all addresses.":
    "Masuk anonim dari satu alamat dalam sejam; sepuluh kali lipatnya dari semua alamat.",
  "OTP requests from an address in an hour.": "Permintaan OTP dari satu alamat dalam sejam.",
  "Wait before another code may be requested.": "Jeda sebelum kode lain dapat diminta.",
  "Attempts to verify one code.": "Percobaan memeriksa satu kode.",
  "Consecutive failed logins that lock an operator's account, or one address of it.":
    "Gagal masuk berturut-turut yang mengunci akun operator, atau satu alamatnya.",
  "How long a lockout lasts.": "Lama terkunci.",
  "Whether failed logins lock the account, or only the address that they came from.":
    "Apakah gagal masuk mengunci akun, atau hanya alamat asalnya.",
  "With the scope `address`: failed logins from all addresses before new addresses are locked out.":
    "Dengan lingkup `address`: gagal masuk dari semua alamat sebelum alamat baru dikunci.",
  "With the scope `address`: how long a lockout of new addresses lasts.":
    "Dengan lingkup `address`: lama alamat baru terkunci.",
  "Whether silent mitras are taken offline.": "Apakah mitra yang diam dijadikan luring.",
  "Silence after which a mitra is offline.": "Lama diam sebelum mitra menjadi luring.",
  "Whether a push asks the phone of a silent mitra for a heartbeat.":
    "Apakah notifikasi meminta heartbeat dari ponsel mitra yang diam.",
  "Legacy heartbeat interval.": "Selang heartbeat yang lama.",
  "Whether the first-session discount needs a verified phone number or an identity.":
    "Apakah diskon sesi pertama memerlukan nomor telepon terverifikasi atau identitas.",
  "Whether payment needs an available mitra or `accept_wait`.":
    "Apakah pembayaran memerlukan mitra yang tersedia atau `accept_wait`.",
  "Lifetime of a payment request.": "Masa berlaku permintaan pembayaran.",
  "Invoices in an hour for an account that never paid; 0: no limit.":
    "Faktur dalam sejam untuk akun yang belum pernah membayar; 0: tanpa batas.",
  "Invoices in an hour for the accounts of an address that never paid; 0: no limit.":
    "Faktur dalam sejam untuk akun-akun satu alamat yang belum pernah membayar; 0: tanpa batas.",
  "A mitra's time to answer a returning customer.": "Waktu mitra menjawab pelanggan yang kembali.",
  "Length of a round of a blast; rounds repeat until the search ends.":
    "Lama satu putaran; berulang sampai pencarian berakhir.",
  "Mitras in a wave of a blast, longest waiting first; 0: all are asked at once.":
    "Mitra per gelombang, mulai dari yang paling lama menunggu; 0: semua ditanya sekaligus.",
  "Time after which the next wave of a blast asks more mitras, if `blast_size` is not 0.":
    "Jeda sebelum gelombang berikutnya menanya mitra lain, bila `blast_size` bukan 0.",
  "How long webhook calls are kept; they are removed by whole months. 0: always.":
    "Lama panggilan webhook disimpan; dihapus per bulan. 0: selamanya.",
  "How long webhook calls without a valid token are kept. 0: as long as others.":
    "Lama panggilan webhook tanpa token sah disimpan. 0: selama yang lain.",
  "How long after its end a session keeps the texts of its messages and goodbyes. 0: always.":
    "Lama teks pesan dan salam penutup disimpan setelah sesi berakhir. 0: selamanya.",
  "How long requests for codes are kept. 0: always.": "Lama permintaan kode disimpan. 0: selamanya.",
  "How long auth sessions are kept that were revoked or expired. 0: always.":
    "Lama sesi masuk yang dicabut atau kedaluwarsa disimpan. 0: selamanya.",
  "How long anonymous customers without a payment or session are kept after their last use. 0: always.":
    "Lama pelanggan anonim tanpa pembayaran atau sesi disimpan setelah terakhir dipakai. 0: selamanya.",
  "Silence after which a party is absent; 0: never.":
    "Lama tanpa kabar sampai satu pihak dianggap pergi; 0: tidak pernah.",
  "A mitra's time to answer an extension; the paid flow expects 10, which operators set by hand.":
    "Waktu mitra menjawab perpanjangan; alur berbayar mengharapkan 10, yang disetel operator sendiri.",
  "Whether an outage takes no time from sessions: deadlines wait, and ends move.":
    "Apakah gangguan tidak mengurangi waktu sesi: tenggat menunggu, dan akhir sesi digeser.",
  "Time that a session gets back for one outage.": "Waktu yang didapat kembali sebuah sesi untuk satu gangguan.",
  "Approved extensions of a session; 0: no limit.": "Perpanjangan sesi yang disetujui; 0: tanpa batas.",
  "What happens when a mitra does not answer an extension.": "Yang terjadi bila mitra tidak menjawab perpanjangan.",
  "How long a search lasts, even with no mitra eligible.":
    "Lama pencarian, juga saat tak ada mitra yang bisa diundang.",
  "How long a customer waits for a mitra's reply before operators see the chat; 0: never.":
    "Berapa lama pelanggan menunggu balasan mitra sebelum operator melihat obrolannya; 0: tidak pernah.",
  "Time in which an operator acts on a failed pairing.": "Waktu bagi operator untuk menangani yang gagal dipasangkan.",
  "Whether a mitra may end a session early.": "Apakah mitra boleh mengakhiri sesi lebih awal.",
  "Whether a customer may end a session early.": "Apakah pelanggan boleh mengakhiri sesi lebih awal.",
  "Whether apps ask twice before they end a session.": "Apakah aplikasi bertanya dua kali sebelum mengakhiri sesi.",
  "Whether both users are warned 180 s before the end.":
    "Apakah kedua pihak diperingatkan 180 detik sebelum sesi berakhir.",
  "Whether apps and invoices list QRIS first; otherwise invoices list it last.":
    "Apakah aplikasi dan faktur menaruh QRIS paling atas; bila tidak, faktur menaruhnya paling bawah.",
  "Whether the mitra app asks before it changes the topic sensitivity.":
    "Apakah aplikasi mitra bertanya sebelum sensitivitas topik diubah.",
  "Whether a sensitive session stays sensitive.": "Apakah sesi sensitif tetap sensitif.",
  "Oldest version of the Android apps that may be used; none: any.":
    "Versi aplikasi Android tertua yang boleh dipakai; tidak ada: semua.",
  "Oldest version of the iOS apps that may be used; none: any.":
    "Versi aplikasi iOS tertua yang boleh dipakai; tidak ada: semua.",
  "Oldest version of the web apps that may be used; none: any.":
    "Versi aplikasi web tertua yang boleh dipakai; tidak ada: semua.",
  "A notice that apps show at their start, in both languages, until a time.":
    "Pemberitahuan yang ditampilkan aplikasi saat dibuka, dalam kedua bahasa, sampai suatu waktu.",
  "Legacy free trial.": "Uji coba gratis yang lama.",
  "Has no effect.": "Tidak berpengaruh.",
  "Legacy tier list; prices are in pricing_tiers.": "Daftar harga lama; harga ada di pricing_tiers.",
  "Contacts shown for help, each with a label and a deeplink.":
    "Kontak bantuan, masing-masing dengan label dan tautan.",
};

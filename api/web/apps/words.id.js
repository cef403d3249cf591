/** English text -> Indonesian text, for the page with three phones. */

export const INDONESIAN = {
  "Try Sesi": "Coba Sesi",
  "A customer and two mitras, on one page": "Seorang pelanggan dan dua mitra dalam satu halaman",
  Elsewhere: "Tempat lain",
  "Control center": "Pusat kendali",
  Inbox: "Kotak masuk",
  "Colours: {theme}": "Warna: {theme}",
  Automatic: "Otomatis",
  Light: "Terang",
  Dark: "Gelap",
  Customer: "Pelanggan",
  "Mitra {name}": "Mitra {name}",
  "The service's clock": "Jam layanan",
  "The service can't be reached": "Layanan tidak dapat dihubungi",
  "Real time": "Waktu nyata",
  "{n} × real time: a minute takes {s} s": "{n} × waktu nyata: satu menit berlangsung {s} dtk",
  "What to do here": "Apa yang bisa dicoba",
  "Sign in on both mitra phones with the code above each, and go online.":
    "Masuk di kedua ponsel mitra dengan kode di atasnya, lalu jadilah daring.",
  "On the customer's phone choose topics and minutes, and pay on the development payment page.":
    "Di ponsel pelanggan pilih topik dan menit, lalu bayar di halaman pembayaran pengembangan.",
  "Both mitras are asked. The first one who accepts has the chat; the other sees that it is taken.":
    "Kedua mitra diminta. Yang pertama menerima mendapat obrolan; yang lain melihat bahwa sudah diambil.",
  "Write, extend, say goodbye. Reload or forget a phone at any moment: nothing that was paid for is lost.":
    "Tulis, perpanjang, berpamitan. Muat ulang atau lupakan ponsel kapan saja: yang sudah dibayar tidak hilang.",
  Codes: "Kode",
  "Newest codes": "Kode terbaru",
  "Codes that the service sends appear here.": "Kode yang dikirim layanan muncul di sini.",
  Copy: "Salin",
  "Copy {code}": "Salin {code}",
  "Copied {code}": "{code} disalin",
  Reload: "Muat ulang",
  "Open alone": "Buka sendiri",
  Forget: "Lupakan",
  "Forget this phone?": "Lupakan ponsel ini?",
  "The app starts as on a new phone. The service keeps everything.":
    "Aplikasi mulai seperti di ponsel baru. Layanan menyimpan semuanya.",
  "Use any number, or no account.": "Pakai nomor apa saja, atau tanpa akun.",
  "This mitra is not there yet: “make try” makes two.": "Mitra ini belum ada: “make try” membuat dua.",
  "This screen has no room for three phones. Open the apps in windows of their own:":
    "Layar ini tidak cukup untuk tiga ponsel. Buka aplikasinya di jendela sendiri:",
  "code {code}": "kode {code}",
  "The customer's app": "Aplikasi pelanggan",
  "The mitra's app": "Aplikasi mitra",
};

/** English text -> Indonesian text, for the development inbox. */

export const INDONESIAN = {
  Inbox: "Kotak masuk",
  "What the service sends and receives outside production: codes, pushes, invoices and webhook calls.":
    "Apa yang dikirim dan diterima layanan di luar produksi: kode, notifikasi, tagihan, dan panggilan webhook.",
  All: "Semua",
  Codes: "Kode",
  Pushes: "Notifikasi",
  Invoices: "Tagihan",
  "Webhook calls": "Panggilan webhook",
  Code: "Kode",
  Push: "Notifikasi",
  Invoice: "Tagihan",
  "Webhook call": "Panggilan webhook",
  Show: "Tampilkan",
  Items: "Isi",
  Details: "Rincian",
  "The provider makes this code.": "Kode ini dibuat oleh penyedia.",
  "Open the payment page": "Buka halaman pembayaran",
  "Nothing yet. Ask for a code or a payment.": "Belum ada apa-apa. Minta kode atau pembayaran.",
  "The service does not answer. Trying again.": "Layanan tidak menjawab. Mencoba lagi.",
  "to {to}": "untuk {to}",
  Colours: "Warna",
  "system default": "ikut sistem",
  light: "terang",
  dark: "gelap",
  Language: "Bahasa",
};

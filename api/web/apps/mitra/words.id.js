/** English text -> Indonesian text, for the texts of the mitra app. */

export const INDONESIAN = {
  // The desk
  Desk: "Meja kerja",
  "Your desk": "Meja kerja Anda",
  "Hello,": "Halo,",
  Menu: "Menu",
  "Earlier chats": "Obrolan sebelumnya",
  Account: "Akun",
  "Choose a chat at the left, or wait for a request.": "Pilih obrolan di sebelah kiri, atau tunggu permintaan.",
  Online: "Daring",
  "You are online": "Anda daring",
  "You are offline": "Anda luring",
  "You are offline.": "Anda luring.",
  "Your phone was silent for too long, so you were taken offline.":
    "Ponsel Anda terlalu lama diam, jadi Anda dijadikan luring.",
  "An operator took you offline.": "Operator menjadikan Anda luring.",
  "Reading your status…": "Membaca status Anda…",
  "You get no chat requests.": "Anda tidak mendapat permintaan obrolan.",
  "All your places are taken: no new requests for now.": "Semua tempat Anda terisi: belum ada permintaan baru.",
  "{n} of {max} places are taken.": "{n} dari {max} tempat terisi.",
  "Your phone last gave a sign during a check on {time}.":
    "Ponsel Anda terakhir memberi tanda saat pemeriksaan pada {time}.",

  // Requests
  "Chat requests": "Permintaan obrolan",
  "Chat request of {name}": "Permintaan obrolan dari {name}",
  "New messages of {name}": "Pesan baru dari {name}",
  "Asks for you": "Meminta Anda",
  Accept: "Terima",
  Reject: "Tolak",
  "Time left to answer": "Sisa waktu menjawab",
  "{n} minutes": "{n} menit",
  Topics: "Topik",
  "Another mitra was faster.": "Mitra lain lebih cepat.",
  "The customer has left.": "Pelanggan sudah pergi.",
  "The time to answer is over.": "Waktu menjawab sudah habis.",
  "You accepted it on another device.": "Anda menerimanya di perangkat lain.",
  "Go online and accept": "Daring dan terima",
  "All your places are taken. Accept when a chat has ended.":
    "Semua tempat Anda terisi. Terima setelah satu obrolan selesai.",
  "Nobody is waiting now. A new request appears here.": "Belum ada yang menunggu. Permintaan baru muncul di sini.",
  "Go online to get chat requests.": "Jadilah daring untuk mendapat permintaan obrolan.",

  // Chats
  "Your chats": "Obrolan Anda",
  "You have no chats now.": "Belum ada obrolan sekarang.",
  "Asks for more time": "Meminta tambahan waktu",
  "Saying goodbye": "Berpamitan",
  "Say hello": "Sapalah",
  "You: {text}": "Anda: {text}",
  "Unread:": "Belum dibaca:",
  Chat: "Obrolan",
  "This chat": "Obrolan ini",
  More: "Lainnya",
  Kind: "Jenis",
  "Paid time": "Waktu yang dibayar",
  "{n} minutes and {m} more": "{n} menit dan tambahan {m}",
  "Mark as sensitive": "Tandai sensitif",
  "Mark as not sensitive": "Tandai tidak sensitif",
  "Is this topic sensitive?": "Apakah topik ini sensitif?",
  "Is this topic not sensitive?": "Apakah topik ini tidak sensitif?",
  "You can't take this mark back. The customer is not told.":
    "Tanda ini tidak bisa ditarik kembali. Pelanggan tidak diberi tahu.",
  "The customer is not told.": "Pelanggan tidak diberi tahu.",
  "End the chat": "Akhiri obrolan",
  "End the chat?": "Akhiri obrolan?",
  "Go on talking": "Lanjut mengobrol",
  "{name} can't write any more. Both of you can still say goodbye.":
    "{name} tidak bisa menulis lagi. Anda berdua masih bisa berpamitan.",
  "Are you sure?": "Anda yakin?",
  "The chat ends for both of you now.": "Obrolan berakhir sekarang untuk Anda berdua.",
  "Yes, end it now": "Ya, akhiri sekarang",
  "The chat goes on.": "Obrolan berlanjut.",
  Warning: "Peringatan",
  "Less than three minutes are left. {name} can ask for more.":
    "Sisa waktu kurang dari tiga menit. {name} bisa meminta tambahan.",
  "More time": "Tambah waktu",
  "{name} asks for {n} more minutes.": "{name} meminta tambahan {n} menit.",
  "Not this time": "Tidak kali ini",
  "Go on": "Lanjut",
  "{n} more minutes.": "Tambahan {n} menit.",
  "{n} more minutes, without your answer.": "Tambahan {n} menit, tanpa jawaban Anda.",
  "The chat is not extended.": "Obrolan tidak diperpanjang.",
  "The chat could not be extended.": "Obrolan tidak dapat diperpanjang.",
  Goodbye: "Pamit",
  "You can still say goodbye.": "Anda masih bisa berpamitan.",
  "Your goodbye is on its way. We wait for {name}'s.": "Pamit Anda terkirim. Menunggu pamit {name}.",
  Running: "Berjalan",
  "Time is up": "Waktu habis",
  Goodbyes: "Berpamitan",
  Ended: "Selesai",
  "Your chats will be here.": "Obrolan Anda akan ada di sini.",

  // Sign-in and account
  "Sign in": "Masuk",
  "For mitras": "Untuk mitra",
  "Sign in with the number that your operator knows. We send a code to it.":
    "Masuk dengan nomor yang dikenal operator Anda. Kami mengirim kode ke sana.",
  "You were signed out: on another device, or because an operator has deactivated your account.":
    "Anda dikeluarkan: dari perangkat lain, atau karena operator menonaktifkan akun Anda.",
  "Your sign-in has ended. Please sign in again.": "Masa masuk Anda berakhir. Silakan masuk lagi.",
  "An operator has deactivated your account, so you were signed out.":
    "Operator menonaktifkan akun Anda, jadi Anda dikeluarkan.",
  "Sign out?": "Keluar?",
  "You go offline and get no chat requests on this device.":
    "Anda menjadi luring dan tidak mendapat permintaan obrolan di perangkat ini.",
};

"""Messages of errors that a listener returns without asking a route's rules, in both languages."""

from core.base.languages import Text

INTERNAL_ERROR = Text(en="Something went wrong on our side.", id="Terjadi kesalahan di pihak kami.")
MALFORMED = Text(en="The request is malformed.", id="Permintaan ini tidak dapat dibaca.")
METHOD_NOT_ALLOWED = Text(en="This endpoint does not support that method.", id="Alamat ini tidak menerima metode itu.")
REQUEST_TIMEOUT = Text(en="The request took too long to arrive.", id="Permintaan ini tidak tiba tepat waktu.")
BODY_TOO_LARGE = Text(en="The body must be at most 64 KiB.", id="Isi permintaan paling besar 64 KiB.")
UNSUPPORTED_MEDIA_TYPE = Text(
    en="The body must be JSON (Content-Type: application/json).",
    id="Isi permintaan harus JSON (Content-Type: application/json).",
)
HEADERS_TOO_LARGE = Text(
    en="Send at most 100 header fields and 64 KiB of headers.", id="Kirim paling banyak 100 header dan header 64 KiB."
)
LINES_TOO_LONG = Text(
    en="Send at most 100 header fields, 64 KiB of headers, and lines of 8,190 bytes.",
    id="Kirim paling banyak 100 header, header 64 KiB, dan baris 8.190 bita.",
)
ORIGIN_FORBIDDEN = Text(en="This origin is not allowed.", id="Asal ini tidak diizinkan.")
METHOD_FORBIDDEN = Text(en="This method is not allowed.", id="Metode ini tidak diizinkan.")
UNANSWERABLE = Text(en="The request can't be processed.", id="Permintaan ini tidak dapat dijawab.")
BUSY = Text(en="The service is busy. Connect again later.", id="Layanan sedang sibuk. Silakan sambungkan lagi nanti.")
STOPPING = Text(en="The process is stopping. Connect again.", id="Proses ini sedang berhenti. Silakan sambungkan lagi.")
NO_UPGRADE = Text(
    en="This endpoint only accepts WebSocket connections.", id="Alamat ini hanya menerima koneksi WebSocket."
)

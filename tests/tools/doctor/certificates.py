"""An authority and the certificates that it issues, and a server with one of them."""

import contextlib
import datetime as dt
import pathlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "localhost"


class Authority:
    """An authority whose certificate is in `file`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("An authority of tests")
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._signed(self._name, self._key.public_key(), days=365, host=None))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, days: float, host: str | None) -> bytes:
        now = dt.datetime.now(dt.UTC)
        made = (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=400))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if host is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def context(self, *, days: float, host: str = NAME) -> ssl.SSLContext:
        """Return the TLS side of a server whose certificate names `host` and is valid for `days` more days."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / "server.pem"
        file.write_bytes(self._signed(_name(host), key.public_key(), days=days, host=host) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handle: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on loopback; yield the URL, which names NAME if there is TLS."""
    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"https://{NAME}:{port}" if context else f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()

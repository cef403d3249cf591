"""The proxies' configurations as they run in a test: with other ports, folders and certificates."""

import datetime as dt
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "api.example.com"  # the name in the files of `deploy`
# As in the shipped files: (public, internal, realtime).
PORTS = (8000, 8001, 8010)
FILES = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}


def write_certificate(folder: pathlib.Path) -> None:
    """Write a certificate for NAME as tls.crt and tls.key, and together as HAProxy and nginx take them, tls.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    for file, content in (("tls.crt", public), ("tls.key", private), ("tls.pem", public + private)):
        (folder / file).write_bytes(content)


def place(
    proxy: str,
    source: pathlib.Path,
    folder: pathlib.Path,
    *,
    port: int = 8442,
    inside: int = 8443,
    ports: tuple[int, int, int] = PORTS,
) -> pathlib.Path:
    """Write the configuration of `source` into `folder` and return its path.

    The proxy listens on `port` of loopback, and for operators from 127.0.0.1 on the port `inside`; `ports` are the public, the internal and the realtime one of the service.
    """
    text = (source / FILES[proxy]).read_text()
    changes = {"/etc/sesi/": f"{folder}/", "127.0.0.0/8": "127.0.0.1"}
    for shipped, used in zip(PORTS, ports, strict=True):
        changes |= {f":{shipped}": f":{used}", f"port {shipped}": f"port {used}"}
    if proxy == "nginx":
        changes |= {
            "listen 443 ": f"listen 127.0.0.1:{port} ",
            "listen [::]:443 ": f"listen [::1]:{port} ",
            "listen 127.0.0.1:8443 ": f"listen 127.0.0.1:{inside} ",
            "/var/log/nginx/": f"{folder}/",
            "/run/nginx.pid": f"{folder}/nginx.pid",
            "http {\n": "http {\n"
            + "".join(f"    {name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
        }  # fmt: skip
    else:
        changes |= {
            'bind ":${SESI_PORT-443}"': f"bind 127.0.0.1:{port}",
            '"${SESI_INSIDE-127.0.0.1}:8443"': f'"${{SESI_INSIDE-127.0.0.1}}:{inside}"',
            "    user haproxy\n    group haproxy\n": "",  # the tests may run as another user than root
            "maxconn 50000": "maxconn 5000",  # a container may open fewer files than a server
        }
    for old, new in changes.items():
        text = text.replace(old, new)
    target = folder / FILES[proxy]
    target.write_text(text)
    return target

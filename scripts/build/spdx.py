"""Writes the SPDX 2.3 document of a release: each artifact, the files in it, what they link, and what was compiled into them."""
import hashlib
import json
import pathlib
import re
import subprocess

DEBIAN_PACKAGES = pathlib.Path(__file__).with_name("packages.txt")
# Header-only or static: their code is inside our files. All others in packages.txt are linked, or only used to build.
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev", "libasio-dev", "libprotozero-dev")


def output(*words) -> str:
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=True).stdout


def digest(content: bytes, kind: str) -> str:
    return hashlib.new(kind, content).hexdigest()


def checksums(path: pathlib.Path) -> list[dict]:
    content = path.read_bytes()
    return [{"algorithm": kind.upper(), "checksumValue": digest(content, kind)} for kind in ("sha1", "sha256")]


def spdx_id(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(words))


def version_of(package: str) -> str:
    """The installed version of a Debian package, "" if it is not installed."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


def is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries_of(path: pathlib.Path) -> list[str]:
    """The names of the shared libraries that a program or library needs (DT_NEEDED)."""
    return re.findall(r"^\s*NEEDED\s+(\S+)", output("objdump", "-p", path), re.M)


def package_that_has(library: str) -> str:
    """The Debian package of a shared library; "" for the artifact's own libraries and those of torch's wheel."""
    done = subprocess.run(["dpkg-query", "-S", f"*/{library}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = sorted({line.split(":")[0] for line in done.stdout.splitlines() if line.split("/")[-1] == library and "/debug/" not in line})
    return found[0] if found else ""


class Document:
    """Packages, files and relationships, in the order in which they were added."""

    def __init__(self, name: str, namespace: str, created: str):
        self.text = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name, "documentNamespace": namespace,
                     "creationInfo": {"created": created, "creators": ["Tool: scripts/build/release"]}, "packages": [], "files": [],
                     "relationships": []}
        self.known = set()

    def relate(self, one: str, kind: str, other: str) -> None:
        self.text["relationships"].append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    def add_artifact(self, path: pathlib.Path, version: str) -> str:
        name = spdx_id("artifact", path.name)
        self.text["packages"].append({
            "SPDXID": name, "name": path.name, "versionInfo": version, "packageFileName": path.name, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
            "checksums": checksums(path)})
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", name)
        return name

    def add_foreign(self, name: str, version: str, supplier: str) -> str:
        """A third-party package, added once."""
        entry = spdx_id(supplier.split()[-1], name)
        if entry not in self.known:
            self.known.add(entry)
            self.text["packages"].append({
                "SPDXID": entry, "name": name, "versionInfo": version, "supplier": f"Organization: {supplier}", "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"})
        return entry

    def add_files(self, artifact: str, tree: pathlib.Path) -> None:
        """The files of an unpacked artifact, and the libraries that its binaries link."""
        files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
        own = {path.name for path in tree.rglob("*")}
        for path in files:
            name = spdx_id("file", artifact.removeprefix("SPDXRef-artifact-"), path.relative_to(tree).as_posix())
            self.text["files"].append({"SPDXID": name, "fileName": f"./{path.relative_to(tree).as_posix()}", "checksums": checksums(path),
                                       "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
            self.relate(artifact, "CONTAINS", name)
            if is_elf(path):
                self.add_links(name, path, own)

    def add_links(self, file: str, path: pathlib.Path, own: set[str]) -> None:
        for library in libraries_of(path):
            if library in own:
                continue
            package = package_that_has(library)
            other = (self.add_foreign(package, version_of(package), "Debian") if package
                     else self.add_foreign("torch", "of the environment", "PyTorch"))
            self.relate(file, "DYNAMIC_LINK", other)

    def add_compiled_in(self, artifact: str) -> None:
        for package in COMPILED_IN:
            self.relate(artifact, "STATIC_LINK", self.add_foreign(package, version_of(package), "Debian"))

    def add_build_tools(self, artifact: str) -> None:
        for line in DEBIAN_PACKAGES.read_text().splitlines():
            kind, *names = line.split() or [""]
            if kind == "build" and names[0] not in COMPILED_IN and version_of(names[0]):
                self.relate(self.add_foreign(names[0], version_of(names[0]), "Debian"), "BUILD_DEPENDENCY_OF", artifact)

    def write(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps(self.text, indent=1) + "\n")

"""Hosts for trials on one machine: network namespaces, joined by a bridge. They need root and iproute2."""
import os
import shutil
import subprocess


class Hosts:
    """Network namespaces connected by a bridge in another one; removed at the end."""

    def __init__(self, count: int):
        self.tag = f"lk{os.getpid()}"
        self.names = [f"{self.tag}h{i}" for i in range(count)]

    def __enter__(self):
        bridge = f"{self.tag}b"
        run("ip", "netns", "add", bridge)
        inside(bridge, "ip", "link", "add", "br0", "type", "bridge")
        inside(bridge, "ip", "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"p{i}", "netns", bridge, "type", "veth", "peer", "name", "eth0", "netns", name)
            inside(bridge, "ip", "link", "set", f"p{i}", "master", "br0", "up")
            inside(name, "ip", "link", "set", "lo", "up")
            inside(name, "ip", "link", "set", "eth0", "up")
            inside(name, "ip", "address", "add", f"{self.address(i)}/24", "dev", "eth0")
        return self

    def __exit__(self, *_):
        for name in [*self.names, f"{self.tag}b"]:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def cut(self, number: int) -> None:
        inside(f"{self.tag}b", "ip", "link", "set", f"p{number}", "down")

    def processes(self, number: int) -> list[int]:
        said = subprocess.run(["ip", "netns", "pids", self.names[number]], stdout=subprocess.PIPE, text=True, check=True)
        return [int(word) for word in said.stdout.split()]

    def command(self, number: int, *words: str) -> list[str]:
        """The command that runs `words` on a host."""
        return ["ip", "netns", "exec", self.names[number], *words]

    @staticmethod
    def address(number: int) -> str:
        return f"10.77.0.{number + 1}"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def inside(name: str, *words: str) -> None:
    run("ip", "netns", "exec", name, *words)


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"lk{os.getpid()}probe"
    if subprocess.run(["ip", "netns", "add", probe], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return False
    run("ip", "netns", "delete", probe)
    return True

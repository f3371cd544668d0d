"""The system calls that a program in the sandbox may not make, as a seccomp filter for bubblewrap.

Two aims. The kernel offers a program less to attack: no tracing, mounting, loading, keyrings, BPF or io_uring. And
memory stays bounded: what belongs to no process's address space (memfd, System V segments, shared anonymous pages)
would escape every limit that a process has. The filter is a list of what is refused: programs are ordinary ones.
"""

from __future__ import annotations

import errno
import platform
import struct

from sandbox.errors import SandboxMissing

# seccomp(2), linux/bpf_common.h
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

# Machine → AUDIT_ARCH_…; the column of a call's number is the place in this dictionary.
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSED = {
    # Reaching into other processes; pid 1 of the sandbox is bubblewrap.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Memory that no limit of a process counts.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    # Keyrings have no namespace.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Namespaces and mounts.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    # The machine.
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "syslog": (103, 116), "personality": (135, 92),
}  # fmt: skip
NEWEST = 462  # mseal; what is newer is unknown here, and the C library manages without
CLONE, CLONE3, MMAP, PRLIMIT = (56, 220), (435, 435), (9, 222), (302, 261)
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW… flag
SHARED_ANONYMOUS = 0x21  # MAP_SHARED | MAP_ANONYMOUS: its pages stay when all but one of them are unmapped
# What a socket holds is in no process's address space. Of sockets there are only the pairs of asyncio's event loops,
# whose buffers keep the size they are born with (`usage` counts them): no others, as a queue of messages or of
# connections holds hundreds of buffers (and AF_VSOCK reaches a virtual machine's host past every namespace); no larger
# ones; and none on its way inside of another, where nobody sees it.
SOCKET, SOCKETPAIR, SETSOCKOPT, SENDMSG, SENDMMSG = (41, 198), (53, 199), (54, 208), (46, 211), (307, 269)
AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK, SOL_SOCKET = 1, 1, 0xF, 1
FCNTL, SET_PIPE_SIZE = (72, 25), 1031  # a pipe keeps its size, too
BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE


def write_filter(machine: str | None = None) -> bytes:
    """The filter for this machine's architecture. Raises SandboxMissing for one that is not known here."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise SandboxMissing(f"the sandbox knows the system calls of {' and '.join(ARCHITECTURES)}, not of {machine}")
    column = list(ARCHITECTURES).index(machine)
    refuse = _step(RETURN, REFUSE | errno.EPERM)
    unknown = _step(RETURN, REFUSE | errno.ENOSYS)
    no_socket = _step(RETURN, REFUSE | errno.EAFNOSUPPORT)
    allow = _step(RETURN, ALLOW)
    steps = [
        _step(LOAD, ARCHITECTURE),
        _step(EQUAL, ARCHITECTURES[machine], skip_if=1),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER),
        _step(AT_LEAST, NEWEST + 1, skip_unless=1),
        unknown,
        # Its flags lie behind a pointer, out of a filter's sight; the C library falls back to clone.
        _step(EQUAL, CLONE3[column], skip_unless=1),
        unknown,
    ]
    for numbers in REFUSED.values():
        steps += [_step(EQUAL, numbers[column], skip_unless=1), refuse]
    steps += [
        _step(EQUAL, CLONE[column], skip_unless=4),
        _step(LOAD, ARGUMENTS),
        _step(ANY_BIT, NEW_NAMESPACES, skip_unless=1),
        refuse,
        allow,
        _step(EQUAL, MMAP[column], skip_unless=5),
        _step(LOAD, ARGUMENTS + 3 * 8),
        _step(AND, SHARED_ANONYMOUS),
        _step(EQUAL, SHARED_ANONYMOUS, skip_unless=1),
        refuse,
        allow,
        # Limits of another process, such as the sandbox's first, could end it from within.
        _step(EQUAL, PRLIMIT[column], skip_unless=4),
        _step(LOAD, ARGUMENTS),
        _step(EQUAL, 0, skip_if=1),
        refuse,
        allow,
        _step(EQUAL, SOCKET[column], skip_unless=1),
        no_socket,
        _step(EQUAL, SENDMSG[column], skip_unless=1),
        refuse,
        _step(EQUAL, SENDMMSG[column], skip_unless=1),
        refuse,
        _step(EQUAL, SOCKETPAIR[column], skip_unless=7),
        _step(LOAD, ARGUMENTS),
        _step(EQUAL, AF_UNIX, skip_unless=4),
        _step(LOAD, ARGUMENTS + 8),
        _step(AND, SOCK_TYPE_MASK),
        _step(EQUAL, SOCK_STREAM, skip_unless=1),
        allow,
        no_socket,
        _step(EQUAL, FCNTL[column], skip_unless=4),
        _step(LOAD, ARGUMENTS + 8),
        _step(EQUAL, SET_PIPE_SIZE, skip_unless=1),
        refuse,
        allow,
        _step(EQUAL, SETSOCKOPT[column], skip_unless=9),
        _step(LOAD, ARGUMENTS + 8),
        _step(EQUAL, SOL_SOCKET, skip_unless=5),
        _step(LOAD, ARGUMENTS + 2 * 8),
        *(_step(EQUAL, option, skip_if=len(BUFFER_SIZES) - place) for place, option in enumerate(BUFFER_SIZES)),
        allow,
        refuse,
        allow,
    ]
    return b"".join(steps)


def _step(code: int, value: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    """One struct sock_filter; `skip_…` say how many steps a comparison jumps over when it is true, or false."""
    return struct.pack("=HBBI", code, skip_if, skip_unless, value)

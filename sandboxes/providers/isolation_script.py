"""What tries a sandbox's ways out from inside it: Python where there is one, else a shell.

Both are given seconds and targets, `how|host|port|server name`, and print lines of tab-separated
fields: `tool`, the tool's name, trouble with it; and for each target its number, `reached`,
`blocked` or `unknown`, and details. First each shows on loopback that it can tell at all.
"""

from __future__ import annotations

# $0 of the shell is this program, so that there is one command whatever the image has.
PYTHON = r"""
import os, socket, struct, sys, threading, time
seconds, targets = float(sys.argv[1]), [one.split("|") for one in sys.argv[2:]]
found = {}
QUESTION = struct.pack(">HHHHHH", 4660, 256, 1, 0, 0, 0) + b"\7example\3com\0\0\1\0\1"

def connect(host, port):
    return socket.create_connection((host, int(port)), seconds)

def http(host, port, name):
    with connect(host, port) as wire:
        wire.settimeout(seconds)
        wire.sendall(("GET / HTTP/1.0\r\nHost: %s\r\n\r\n" % (name or host)).encode())
        answer = wire.recv(4096)
        while answer and b"\r\n\r\n" not in answer and len(answer) < 4096:
            more = wire.recv(4096)
            if not more:
                break
            answer += more
    if not answer.startswith(b"HTTP/"):
        return "blocked", "connected, no HTTP answer"
    head = answer.split(b"\r\n\r\n")[0].split(b"\r\n")
    server = [one for one in head[1:] if one.lower().startswith(b"server:")]
    return "reached", b" ".join(head[:1] + server).decode("latin-1")

def tls(host, port, name):
    try:
        import ssl
    except ImportError:
        return "unknown", "this Python has no TLS"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connect(host, port) as wire:
        wire.settimeout(seconds)
        try:
            with context.wrap_socket(wire, server_hostname=name or None) as safe:
                return "reached", "handshake finished, " + str(safe.version())
        except ssl.SSLError as error:
            return "blocked", "connected, no handshake: " + str(error.reason)

def dns(host, port, name):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as wire:
        wire.settimeout(seconds)
        wire.connect((host, int(port)))
        wire.send(QUESTION)
        answer = wire.recv(512)
    if answer[:2] != QUESTION[:2]:
        return "blocked", "no reply to the question"
    return "reached", "a reply of %d bytes" % len(answer)

def resolve(host, port, name):
    return "reached", "is " + socket.getaddrinfo(host, 80)[0][4][0]

def attempt(number, how, host, port, name):
    try:
        found[number] = {"http": http, "tls": tls, "dns": dns, "resolve": resolve}[how](host, port, name)
    except OSError as error:
        found[number] = "blocked", error.strerror or str(error) or type(error).__name__
    except BaseException as error:
        found[number] = "unknown", type(error).__name__ + ": " + str(error)

def works():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    def answer():
        wire = server.accept()[0]
        wire.recv(100)
        wire.sendall(b"HTTP/1.0 200 fine\r\n\r\n")
        wire.close()
    threading.Thread(target=answer, daemon=True).start()
    return http("127.0.0.1", server.getsockname()[1], "")[0] == "reached"

try:
    trouble = "" if works() else "Python does not see an answer on loopback"
except Exception as error:
    trouble = "Python cannot use the network even on loopback: %s" % error
if trouble:
    print("tool\t\t" + trouble)
else:
    print("tool\tpython\t")
    threads = [
        threading.Thread(target=attempt, args=[number] + target, daemon=True)
        for number, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds * 2 + 1
    for number, thread in enumerate(threads):
        thread.join(max(0, deadline - time.monotonic()))
        word, detail = found.get(number, ("blocked", "no answer in time"))
        print("%d\t%s\t%s" % (number, word, " ".join(detail.split())))
sys.stdout.flush()
os._exit(0)
"""

# A ClientHello without a server name, as octal escapes: TLS 1.2, two suites of elliptic curves.
_HELLO = "".join(
    f"\\{byte:03o}"
    for byte in bytes.fromhex(
        "160301005b01000057030300000000000000000000000000000000000000000000000000000000000000000000"
        "04c02fc02b0100002a000a00080006001d00170018000b00020100000d00140012040105010601040305030603"
        "080408050806"
    )
)
_QUESTION = "\\022\\064\\001\\000\\000\\001\\000\\000\\000\\000\\000\\000\\007example\\003com\\000\\000\\001\\000\\001"

SHELL = rf"""
for python in python3 python; do
  if "$python" -c 'import socket, threading' 2>/dev/null; then
    exec "$python" -c "$0" "$@"
  fi
done
export LC_ALL=C
seconds=$1; shift
work=$(mktemp -d 2>/dev/null) || work=$(pwd)/.omniweb-probe-$$
mkdir -p "$work" || {{ printf 'tool\t\tthere is no room for temporary files\n'; exit 0; }}
trap 'rm -rf "$work"' EXIT
has() {{ command -v "$1" >/dev/null 2>&1; }}

# Each sends its stdin to host and port and prints the beginning of the answer.
by_bash() {{
  bash -c 'exec 3<>"/dev/tcp/$0/$1" || exit 7; cat >&3; exec dd bs=400 count=1 <&3 2>/dev/null' "$1" "$2"
}}
by_nc() {{ nc -w "$seconds" "$1" "$2" | dd bs=400 count=1 2>/dev/null; }}
# Each prints the status line and the server of a page.
by_curl() {{
  curl -s -i --noproxy '*' -m "$seconds" "http://$1:$2/" | head -c 400
}}
by_wget() {{
  wget -S -O /dev/null -T "$seconds" "http://$1:$2/" 2>&1 | head -c 400
}}
# Tries a port of loopback where nobody listens: a tool that works says so.
sees() {{
  (printf x | "by_$1" 127.0.0.1 9; echo "code $?") >"$work/self" 2>&1 &
  self=$!
  (sleep "$seconds"; kill "$self") >/dev/null 2>&1 &
  wait "$self" 2>/dev/null
  grep -q -i -e refused -e unreachable "$work/self" || {{
    [ "$1" = curl ] && said=$(curl -sS -m 2 http://127.0.0.1:9/ 2>&1)
    [ $? = 7 ] && case $said in *onnect*) true;; *) false;; esac
  }}
}}
raw= web=
for tool in bash nc; do
  [ ! "$raw" ] && has $tool && sees $tool && raw=$tool
done
web=$raw
for tool in curl wget; do
  [ ! "$web" ] && has $tool && sees $tool && web=$tool
done
if [ ! "$web" ]; then
  printf 'tool\t\tthe image has nothing that could try it\n'
  exit 0
fi
printf 'tool\t%s\t\n' "$web"

# The last thing a tool complained of, without its own name in front.
why() {{
  said=$(tail -n 1 "$1")
  echo "${{said##*: }}"
}}
http() {{
  host=$1
  case $web:$1 in curl:*:*|wget:*:*) host="[$1]";; esac
  printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' "${{3:-$1}}" | "by_$web" "$host" "$2" >"$4" 2>"$4.err"
  if grep -a -q '^ *HTTP/' "$4"; then
    line=$(grep -a -i -e '^ *HTTP/' -e '^ *Server:' "$4" | head -n 2 | tr -d '\r' | tr '\n' ' ')
    echo "reached	$line"
  else
    echo "blocked	$(why "$4.err")"
  fi
}}
tls() {{
  if [ ! "$raw" ]; then
    if [ "$web" = curl ]; then
      curl -s -k --noproxy '*' -m "$seconds" -o /dev/null "https://$1:$2/" && echo "reached	handshake finished" && return
      case $? in 7|28|35|52|56) echo "blocked	no handshake";; *) echo "unknown	curl cannot do TLS";; esac
    else
      wget -q --no-check-certificate -O /dev/null -T "$seconds" "https://$1:$2/" >/dev/null 2>&1
      case $? in 0|8) echo "reached	handshake finished";; 4|5) echo "blocked	no handshake";; *) echo "unknown	wget cannot do TLS";; esac
    fi
    return
  fi
  printf '{_HELLO}' | "by_$raw" "$1" "$2" >"$4" 2>"$4.err"
  # The first byte of a handshake is 22; of an alert, by which a firewall may say no, it is 21.
  case $(head -c 1 "$4" | od -An -tu1 | tr -d ' ') in
    22) echo "reached	the handshake was answered";;
    *) echo "blocked	$(why "$4.err")";;
  esac
}}
resolve() {{
  if has getent; then
    getent hosts "$1" >"$4" && echo "reached	$(head -n 1 "$4")" || echo "blocked	no address for $1"
  elif has nslookup; then
    nslookup "$1" >"$4" 2>&1 && echo "reached	$(tail -n 2 "$4" | tr '\n' ' ')" || echo "blocked	no address for $1"
  else
    echo "unknown	nothing here looks up names"
  fi
}}
dns() {{
  [ "$raw" = bash ] || {{ echo "unknown	nothing here sends datagrams"; return; }}
  printf '{_QUESTION}' >"$4.ask"
  bash -c 'exec 3<>"/dev/udp/$0/$1" || exit 7; cat "$2" >&3; exec head -c 2 <&3' "$1" "$2" "$4.ask" >"$4" 2>"$4.err"
  case $(od -An -tx1 "$4" | tr -d ' ') in 1234) echo "reached	a reply";; *) echo "blocked	no reply";; esac
}}
number=0
for target do
  IFS='|' read -r how host port name <<END
$target
END
  at=$work/$number
  (set -m 2>/dev/null; "$how" "$host" "$port" "$name" "$at" >"$at.told" 2>/dev/null; : >"$at.done") </dev/null >/dev/null 2>&1 &
  number=$((number + 1))
done
waited=0
while [ "$waited" -lt $((seconds * 5 + 5)) ]; do
  done=0
  for one in "$work"/*.done; do [ -e "$one" ] && done=$((done + 1)); done
  [ "$done" = "$number" ] && break
  sleep 0.2 2>/dev/null || {{ sleep 1; waited=$((waited + 4)); }}
  waited=$((waited + 1))
done
n=0
while [ "$n" -lt "$number" ]; do
  if [ -s "$work/$n.told" ]; then
    printf '%s\t%s\n' "$n" "$(head -n 1 "$work/$n.told")"
  elif grep -a -q '^ *HTTP/' "$work/$n" 2>/dev/null; then
    # Answered, but the connection was left open.
    printf '%s\treached\t%s\n' "$n" "$(grep -a '^ *HTTP/' "$work/$n" | head -n 1 | tr -d '\r')"
  elif [ "$(head -c 1 "$work/$n" 2>/dev/null | od -An -tu1 | tr -d ' ')" = 22 ]; then
    printf '%s\treached\tthe handshake was answered\n' "$n"
  else
    printf '%s\tblocked\tno answer in time\n' "$n"
  fi
  n=$((n + 1))
done
exit 0
"""

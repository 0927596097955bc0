package ssh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

// Everything here is done with what a POSIX shell has. As soon as the agent
// is over there, it does the rest.

// site is what a shell says of the other side.
type site struct {
	goos, goarch string
	uid          string
	cache, state string // folders of this program there
}

// hello asks for the system and for the places where root, or a user, keeps
// caches and state.
const hello = `uname -s; uname -m; id -u; printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}" "${XDG_STATE_HOME:-$HOME/.local/state}"`

// ask asks the other side who it is.
func (c *client) ask(ctx context.Context) (site, error) {
	var out bytes.Buffer
	errs := conn.Tail{Limit: 1024}
	exit, err := c.run(ctx, []string{"sh", "-c", hello}, nil, &head{w: &out, left: 16 << 10}, &errs)
	if err != nil {
		return site{}, err
	}
	if !exit.OK() {
		return site{}, fault.New(fault.Lab, "ssh %s: a shell there ends with %s: %s", c.o.Target, exit, brief(string(errs.Bytes())))
	}
	s, err := parseHello(out.String())
	if err != nil {
		return s, fault.Op("ssh "+c.o.Target, err)
	}
	if c.o.Dir != "" {
		s.cache, s.state = path.Join(c.o.Dir, "cache"), path.Join(c.o.Dir, "state")
	}
	return s, nil
}

// head takes the first bytes of an answer.
type head struct {
	w    io.Writer
	left int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.left -= n
	h.w.Write(p[:n])
	return len(p), nil
}

// systems and machines are what uname says, in Go's words.
var (
	systems = map[string]string{"Linux": "linux", "FreeBSD": "freebsd", "OpenBSD": "openbsd", "NetBSD": "netbsd",
		"DragonFly": "dragonfly", "SunOS": "illumos"}
	machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "i86pc": "amd64", "aarch64": "arm64",
		"arm64": "arm64", "evbarm": "arm64", "riscv64": "riscv64"}
)

// parseHello reads the answer to hello. What a login script prints before it
// is passed over: the answer is the last five lines.
func parseHello(text string) (site, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) < 5 {
		return site{}, fault.New(fault.Lab, "the answer to uname cannot be read: %q", safetext.Line(text))
	}
	lines = lines[len(lines)-5:]
	s := site{goos: systems[lines[0]], goarch: machines[lines[1]], uid: lines[2]}
	if s.goos == "" || s.goarch == "" {
		return s, fault.New(fault.Unsupported, "there is no agent for %s on %s", safetext.Line(lines[0]), safetext.Line(lines[1]))
	}
	s.cache, s.state = path.Join(lines[3], "bakeoff"), path.Join(lines[4], "bakeoff")
	if s.uid == "0" {
		s.cache, s.state = "/var/cache/bakeoff", "/var/lib/bakeoff"
	}
	if !path.IsAbs(s.cache) || !path.IsAbs(s.state) {
		return s, fault.New(fault.Unsupported, "the user there has no home: caches would lie in %q", safetext.Line(lines[3]))
	}
	return s, nil
}

// keep writes standard input to $1, whole or not at all, unless a file of $2
// bytes is there already; its name holds its hash. What is half written is
// removed. It drains its input either way, so that the writer ends in peace.
const keep = `umask 022; d=${1%/*}; mkdir -p -- "$d" || exit 1
t=$1.new.$$
trap 'rm -f -- "$t"' EXIT; trap 'exit 1' HUP INT TERM PIPE
cat >"$t" || { cat >/dev/null; exit 1; }
[ "$(wc -c <"$t")" -eq "$2" ] || { echo "the transfer broke off" >&2; exit 1; }
chmod 755 "$t" && mv -f -- "$t" "$1"`

// here tells whether $1 is a program of $2 bytes.
const here = `[ -x "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ]`

// pushAgent puts the agent for the other side there and returns its path. The
// name holds the hash, so that what is there already stays.
func (c *client) pushAgent(ctx context.Context, s site) (string, error) {
	file, err := c.o.Agent(s.goos, s.goarch)
	if err != nil {
		return "", fault.Op("the agent for "+s.goos+"/"+s.goarch, err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fault.Op("the agent", err)
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", fault.Op("the agent", err)
	}
	there := path.Join(s.cache, "agent", fmt.Sprintf("bakeoff-agent-%s-%s-%s", s.goos, s.goarch, hex.EncodeToString(sum.Sum(nil))[:24]))
	length := fmt.Sprint(size)
	if exit, err := c.run(ctx, []string{"sh", "-c", here, "sh", there, length}, nil, nil, nil); err != nil || exit.OK() {
		return there, err
	}
	c.o.say("sending the agent for %s/%s to %s", s.goos, s.goarch, c.o.Name)
	errs := conn.Tail{Limit: 1024}
	exit, err := c.run(ctx, []string{"sh", "-c", keep, "sh", there, length}, f, nil, &errs)
	if err != nil {
		return "", err
	}
	if !exit.OK() {
		return "", fault.New(fault.Lab, "ssh %s: the agent cannot be put into %s: %s", c.o.Target, path.Dir(there), brief(string(errs.Bytes())))
	}
	return there, nil
}

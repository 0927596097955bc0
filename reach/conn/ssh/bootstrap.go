package ssh

import (
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

// This file needs only a POSIX shell on the other side, and windows.go OpenSSH for Windows.
// Once the agent is installed, the agent does the rest.

// site is how the shell describes the other side.
type site struct {
	goos, goarch string
	uid          string
	shell        string // of Windows: cmd or powershell; "" is a POSIX shell
	cache, state string // folders of bakeoff there
}

// hello prints the system, and where root or a user keeps caches and state.
const hello = `uname -s; uname -m; id -u; ` +
	`printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}" "${XDG_STATE_HOME:-$HOME/.local/state}"`

// askSite runs hello on the other side.
func (c *client) askSite(ctx context.Context) (site, error) {
	out := conn.Head{Limit: 16 << 10}
	errs := conn.Tail{Limit: 1024}
	exit, err := c.run(ctx, []string{"sh", "-c", hello}, nil, &out, &errs)
	if err != nil {
		return site{}, err
	}
	s, perr := site{}, error(nil)
	if exit.OK() {
		s, perr = parseHello(string(out.Bytes()))
	} else {
		perr = fault.New(fault.Lab, "the remote shell failed with %s: %s", exit, brief(string(errs.Bytes())))
	}
	if perr != nil {
		var found bool
		if s, found, err = c.askWindows(ctx); err == nil && !found {
			err = perr
		}
	}
	if err != nil {
		return s, fault.Op("ssh "+c.o.Target, err)
	}
	if c.o.Dir != "" {
		s.cache, s.state = path.Join(c.o.Dir, "cache"), path.Join(c.o.Dir, "state")
	}
	return s, nil
}

// systems and machines map the output of uname to GOOS and GOARCH.
var (
	systems = map[string]string{"Linux": "linux", "FreeBSD": "freebsd", "OpenBSD": "openbsd", "NetBSD": "netbsd",
		"DragonFly": "dragonfly", "SunOS": "illumos"}
	machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "i86pc": "amd64", "aarch64": "arm64",
		"arm64": "arm64", "evbarm": "arm64", "riscv64": "riscv64"}
)

// parseHello reads the output of hello. It skips what a login script prints
// first: the answer is the last five lines.
func parseHello(text string) (site, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) < 5 {
		return site{}, fault.New(fault.Lab, "unexpected output of uname: %q", safetext.Line(text))
	}
	lines = lines[len(lines)-5:]
	s := site{goos: systems[lines[0]], goarch: machines[lines[1]], uid: lines[2]}
	if s.goos == "" || s.goarch == "" {
		return s, fault.New(fault.Unsupported, "no bakeoff-agent for %s on %s", safetext.Line(lines[0]),
			safetext.Line(lines[1]))
	}
	s.cache, s.state = path.Join(lines[3], "bakeoff"), path.Join(lines[4], "bakeoff")
	if s.uid == "0" {
		s.cache, s.state = "/var/cache/bakeoff", "/var/lib/bakeoff"
	}
	if !path.IsAbs(s.cache) || !path.IsAbs(s.state) {
		return s, fault.New(fault.Unsupported,
			"the remote user has no home directory (cache folder %q); set `dir` of the host", safetext.Line(lines[3]))
	}
	return s, nil
}

// keep writes standard input to $1 atomically and checks that it has $2 bytes.
// It removes an incomplete file, and reads all of its input in any case, so
// that the writer does not fail.
const keep = `umask 022; d=${1%/*}; mkdir -p -- "$d" || exit 1
t=$1.new.$$
trap 'rm -f -- "$t"' EXIT; trap 'exit 1' HUP INT TERM PIPE
cat >"$t" || { cat >/dev/null; exit 1; }
[ "$(wc -c <"$t")" -eq "$2" ] || { echo "the transfer was interrupted" >&2; exit 1; }
chmod 755 "$t" && mv -f -- "$t" "$1"`

// here succeeds if $1 is a program of $2 bytes.
const here = `[ -x "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ]`

// pushAgent copies the agent to the other side and returns its path. The name
// contains the hash, so an existing file is kept.
func (c *client) pushAgent(ctx context.Context, s site) (string, error) {
	file, err := c.o.Agent(s.goos, s.goarch)
	if err != nil {
		return "", fault.Op("bakeoff-agent for "+s.goos+"/"+s.goarch, err)
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
	there := path.Join(s.cache, "agent", fmt.Sprintf("bakeoff-agent-%s-%s-%s", s.goos, s.goarch,
		hex.EncodeToString(sum.Sum(nil))[:24]))
	if s.shell != "" {
		return c.pushWindows(ctx, there+".exe", file, size)
	}
	length := fmt.Sprint(size)
	if exit, err := c.run(ctx, []string{"sh", "-c", here, "sh", there, length}, nil, nil, nil); err != nil ||
		exit.OK() {
		return there, err
	}
	c.o.reportProgress("copying bakeoff-agent for %s/%s to %s", s.goos, s.goarch, c.o.Name)
	errs := conn.Tail{Limit: 1024}
	exit, err := c.run(ctx, []string{"sh", "-c", keep, "sh", there, length}, f, nil, &errs)
	if err != nil {
		return "", err
	}
	if !exit.OK() {
		return "", fault.New(fault.Lab, "ssh %s: cannot copy bakeoff-agent to %s: %s", c.o.Target, path.Dir(there),
			brief(string(errs.Bytes())))
	}
	return there, nil
}

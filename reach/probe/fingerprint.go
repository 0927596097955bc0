package probe

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
	"bakeoff/base/safetext"
)

// ReadFingerprint describes this system: the facts common to all systems, and
// those specific to this one. volumes are directories whose file systems it
// describes, in addition to that of /. It runs a few programs to get their
// versions, so it takes from some milliseconds to some seconds.
func ReadFingerprint(volumes []string) facts.Fingerprint {
	c := newCollector()
	c.uname()
	c.system(volumes)
	c.limits()
	c.programs()
	c.instructions()
	return c.f
}

// collector gathers facts, and the reasons for missing ones.
type collector struct{ f facts.Fingerprint }

func newCollector() *collector {
	c := &collector{facts.Fingerprint{
		Schema:      facts.FingerprintSchema,
		Facts:       map[string]string{},
		Unavailable: map[string]string{},
	}}
	c.set("arch", runtime.GOARCH, "")
	c.set("system", runtime.GOOS, "")
	return c
}

// set records a fact, or the reason why it is missing if value is empty.
func (c *collector) set(name, value, reason string) {
	if value = clean(value); value != "" {
		c.f.Facts[name] = value
		return
	}
	c.f.Unavailable[name] = reason
}

// clean makes one line of printable characters of a system's text.
func clean(s string) string { return safetext.Line(strings.Trim(s, " \t\r\n\x00")) }

func (c *collector) uname() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		c.set("kernel", "", "uname: "+err.Error())
		return
	}
	c.set("kernel", unix.ByteSliceToString(u.Sysname[:])+" "+unix.ByteSliceToString(u.Release[:]), "uname is empty")
	c.set("kernel.build", unix.ByteSliceToString(u.Version[:]), "uname is empty")
}

// limits records the resource limits as soft:hard. Of open files it records the
// hard limit only, because the Go runtime raises the soft one to it.
func (c *collector) limits() {
	for _, l := range []struct {
		name string
		what int
	}{
		{"cpu-seconds", unix.RLIMIT_CPU}, {"data", unix.RLIMIT_DATA}, {"file-size", unix.RLIMIT_FSIZE},
		{"open-files", unix.RLIMIT_NOFILE}, {"stack", unix.RLIMIT_STACK},
	} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.what, &r); err != nil {
			c.set("limit."+l.name, "", err.Error())
			continue
		}
		text := limit(uint64(r.Cur)) + ":" + limit(uint64(r.Max))
		if l.what == unix.RLIMIT_NOFILE {
			text = limit(uint64(r.Max))
		}
		c.set("limit."+l.name, text, "")
	}
}

// limit formats a limit. Systems have several values for "none", all of them
// larger than any real limit.
func limit(n uint64) string {
	if n >= 1<<62 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// version is a command that prints a program's version.
type version struct {
	fact string
	argv []string
}

var versions = []version{
	{"compiler", []string{"cc", "--version"}},
	{"openssl", []string{"openssl", "version"}},
	{"nginx", []string{"nginx", "-v"}},
}

func (c *collector) programs() {
	for _, v := range versions {
		line, reason := ask(v.argv...)
		c.set(v.fact, line, reason)
	}
}

// ask runs a program and returns the first line that it prints, or why there is
// none.
func ask(argv ...string) (line, reason string) {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return "", argv[0] + " is not in PATH"
	}
	line, _, _ = strings.Cut(strings.TrimSpace(askAll(argv...)), "\n")
	return line, argv[0] + " printed nothing"
}

// askAll runs a program and returns the start of its output on both streams,
// whatever its exit code. It kills the program after some seconds.
func askAll(argv ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out := &limited{limit: safetext.MaxLine}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out // nginx prints its version on stderr
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // musl's loader prints its version and fails
	return out.buf.String()
}

// limited keeps the first limit bytes and discards the rest. The buffer is not
// embedded: its ReadFrom would ignore the limit.
type limited struct {
	buf   bytes.Buffer
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	l.buf.Write(p[:min(len(p), l.limit-l.buf.Len())])
	return len(p), nil
}

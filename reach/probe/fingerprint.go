package probe

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"

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
	if value = printable(value); value != "" {
		c.f.Facts[name] = value
		return
	}
	c.f.Unavailable[name] = reason
}

// printable makes one line of printable characters of a system's text.
func printable(s string) string { return safetext.Line(strings.Trim(s, " \t\r\n\x00")) }

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
		line, reason := askProgram(v.argv...)
		c.set(v.fact, line, reason)
	}
}

// askProgram runs a program and returns the first line that it prints, or why there is
// none.
func askProgram(argv ...string) (line, reason string) {
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

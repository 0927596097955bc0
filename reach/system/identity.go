package system

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/shell"
	"bakeoff/reach/conn"
)

// Identity identifies the operating system of a machine.
type Identity struct {
	Kernel  string // uname -s: Linux, FreeBSD, SunOS …
	Version string // uname -v: on SmartOS joyent_ and a date
	// Release is os-release(5), by key; empty where there is none.
	Release map[string]string
}

// maxRelease bounds an os-release file, in bytes.
const maxRelease = 64 << 10

// Identify reads the identity of the system behind c.
func Identify(ctx context.Context, c conn.Conn) (Identity, error) {
	var id Identity
	for flag, to := range map[string]*string{"-s": &id.Kernel, "-v": &id.Version} {
		said, err := Ask(ctx, c, "uname", flag)
		if err != nil {
			return id, err
		}
		*to = said
	}
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		file := &conn.Head{Limit: maxRelease}
		err := c.Pull(ctx, path, file)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return id, fault.Op("read "+path, err)
		}
		if id.Release, err = ParseRelease(file.Bytes()); err != nil {
			return id, fault.Op(path, err)
		}
		break
	}
	return id, nil
}

// Ask runs a program and returns its output without surrounding white space. A
// program that fails is an error of kind fault.Subject with its error output.
func Ask(ctx context.Context, c conn.Conn, argv ...string) (string, error) {
	out, errs := &conn.Head{Limit: maxRelease}, &conn.Head{Limit: 4 << 10}
	exit, err := c.Exec(ctx, conn.Cmd{Argv: argv, Stdout: out, Stderr: errs})
	if err != nil {
		return "", err
	}
	said := strings.TrimSpace(string(out.Bytes()))
	if !exit.OK() {
		return said, fault.New(fault.Subject, "%s: %s: %s", shell.Quote(argv...), exit,
			strings.TrimSpace(string(errs.Bytes())))
	}
	return said, nil
}

// ParseRelease reads the assignments of os-release(5): NAME=value, the value
// optionally in shell quotes. An error of kind fault.Invalid names the line.
func ParseRelease(text []byte) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, fault.New(fault.Invalid, "line %d: %q is not NAME=value", n, line)
		}
		unquoted, err := unquote(value)
		if err != nil {
			return nil, fault.New(fault.Invalid, "line %d: %v", n, err)
		}
		out[name] = unquoted
	}
	if err := lines.Err(); err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	return out, nil
}

// unquote removes one pair of quotes, and inside double quotes the backslashes
// before the characters that os-release(5) names.
func unquote(v string) (string, error) {
	if v == "" || v[0] != '"' && v[0] != '\'' {
		return v, nil
	}
	if len(v) < 2 || v[len(v)-1] != v[0] {
		return "", fmt.Errorf("%s has no closing quote", v)
	}
	if v[0] == '\'' {
		return v[1 : len(v)-1], nil
	}
	var b strings.Builder
	for s := v[1 : len(v)-1]; s != ""; s = s[1:] {
		if s[0] == '\\' && len(s) > 1 && strings.IndexByte("\"$`\\", s[1]) >= 0 {
			s = s[1:]
		}
		b.WriteByte(s[0])
	}
	return b.String(), nil
}

// Of returns the system of an identity: the one that names its ID, else one
// that names an ID in ID_LIKE; ok is false if there is none.
func Of(all []System, id Identity) (System, bool) {
	like := append([]string{id.Release["ID"]}, strings.Fields(id.Release["ID_LIKE"])...)
	for _, name := range like {
		for _, s := range all {
			if d := s.Doc(); d.Kernel == id.Kernel && slices.Contains(d.IDs, name) {
				return s, true
			}
		}
	}
	for _, s := range all {
		if d := s.Doc(); d.Kernel == id.Kernel && len(d.IDs) == 0 {
			return s, true
		}
	}
	return nil, false
}

package guest

import (
	"context"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Run executes a command of the laboratory's own on host.
func Run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := Output(ctx, host, argv...)
	return err
}

// Output executes a command of the laboratory's own on host and returns what
// it printed, without blanks around it. Messages come in the C locale, because
// some are read.
func Output(ctx context.Context, host conn.Conn, argv ...string) (string, error) {
	out, err := conn.OutputOf(ctx, host, conn.Cmd{Argv: argv, Env: []string{"LC_ALL=C"}})
	return strings.TrimSpace(string(out)), err
}

// Ask executes a command whose exit code is an answer: 0 is yes, and any other
// no. out is what it printed.
func Ask(ctx context.Context, host conn.Conn, argv ...string) (out string, yes bool, err error) {
	said := conn.Tail{Limit: conn.FileLimit}
	exit, err := host.Exec(ctx, conn.Cmd{Argv: argv, Env: []string{"LC_ALL=C"}, Stdout: &said})
	return strings.TrimSpace(string(said.Bytes())), err == nil && exit.OK(), err
}

// System refuses a host that does not run the operating system (as uname -s
// says it) or on which we are not root.
func System(ctx context.Context, host conn.Conn, system string) driver.Availability {
	name, err := Output(ctx, host, "uname", "-s")
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	if name != system {
		return driver.Availability{Reason: "the host runs " + safetext.Line(name), Fix: "use a " + system + " host"}
	}
	uid, err := Output(ctx, host, "id", "-u")
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	if uid != "0" {
		return driver.Availability{Reason: "not root", Fix: "run bakeoff as root"}
	}
	return driver.Availability{OK: true, Facts: map[string]string{}}
}

// Inside makes the directory name below root on the host, and the ones above
// it, for a mount or a file. root comes from an image, which may be a
// stranger's: a link in the way leads out of it and is refused.
func Inside(ctx context.Context, host conn.Conn, root, name string) (string, error) {
	name = path.Clean("/" + name)
	at := root
	for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
		at = path.Join(at, part)
		if _, link, err := Ask(ctx, host, "test", "-h", at); err != nil {
			return "", err
		} else if link {
			return "", fault.New(fault.Invalid, "%s is a link in the image, where a directory is wanted", strings.TrimPrefix(at, root))
		}
	}
	return at, Run(ctx, host, "mkdir", "-p", at)
}

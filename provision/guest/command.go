package guest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Run executes a command on host.
func Run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := Output(ctx, host, argv...)
	return err
}

// Output executes a command on host and returns its output, without surrounding
// blanks. It uses the C locale, because some messages are parsed.
func Output(ctx context.Context, host conn.Conn, argv ...string) (string, error) {
	out, err := conn.OutputOf(ctx, host, conn.Cmd{Argv: argv, Env: []string{"LC_ALL=C"}})
	return strings.TrimSpace(string(out)), err
}

// Ask executes a command whose exit code is an answer: 0 is yes, any other code
// is no. out is its output.
func Ask(ctx context.Context, host conn.Conn, argv ...string) (out string, yes bool, err error) {
	said := conn.Tail{Limit: conn.FileLimit}
	exit, err := host.Exec(ctx, conn.Cmd{Argv: argv, Env: []string{"LC_ALL=C"}, Stdout: &said})
	return strings.TrimSpace(string(said.Bytes())), err == nil && exit.OK(), err
}

// NotRoot is the reason of System where bakeoff is not root.
const NotRoot = "not root"

// System refuses a host that does not run this operating system (as uname -s
// names it) or on which bakeoff is not root.
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
		return driver.Availability{Reason: NotRoot, Fix: "run bakeoff as root"}
	}
	return driver.Availability{OK: true, Facts: map[string]string{}}
}

// Inside creates the directory name below root on the host, with its parents,
// for a mount or a file. root comes from an image, possibly a stranger's, so
// Inside refuses symbolic links on the way.
func Inside(ctx context.Context, host conn.Conn, root, name string) (string, error) {
	name = path.Clean("/" + name)
	at := root
	for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
		at = path.Join(at, part)
		if _, link, err := Ask(ctx, host, "test", "-h", at); err != nil {
			return "", err
		} else if link {
			return "", fault.New(fault.Invalid, "%s is a symbolic link in the image; it must be a directory",
				strings.TrimPrefix(at, root))
		}
	}
	return at, Run(ctx, host, "mkdir", "-p", at)
}

// Release adds the release of host's operating system to the facts of a.
func Release(ctx context.Context, host conn.Conn, a driver.Availability) driver.Availability {
	release, err := Output(ctx, host, "uname", "-r")
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	a.Facts["release"] = safetext.Line(release)
	return a
}

// NoDisk is the answer of Check where the option disk is not set.
func NoDisk() driver.Availability {
	return driver.Availability{Reason: "no disk is named",
		Fix: "make an image that starts the agent, and name it in the option disk"}
}

// Taken is the error of a creation that finds a live environment with its
// label: what is "a jail x".
func Taken(what string) error {
	return fault.WithFix(fault.New(fault.Lab, "%s runs already", what), "run `bakeoff clean`")
}

// part is one part of the name of a snapshot: pool, dataset or snapshot.
const part = `[A-Za-z0-9][A-Za-z0-9_.:-]*`

var snapshotForm = lazy.Compile(`^[A-Za-z][A-Za-z0-9_.:-]*(/` + part + `)+@` + part + `$`)

// CheckSnapshot checks that name is a ZFS snapshot below a pool, which zfs(8)
// does not read as a flag. example is shown in the error.
func CheckSnapshot(option, name, example string) error {
	if snapshotForm.MatchString(name) {
		return nil
	}
	return fault.New(fault.Invalid, "%s must be a snapshot below a pool, such as %s (got %q)", option, example, name)
}

// LinkName is the prefix of the interface names of an environment on FreeBSD,
// which are limited to 15 bytes.
func LinkName(label string) string {
	h := fnv.New32a()
	h.Write([]byte(label))
	return fmt.Sprintf("bo%08x", h.Sum32())
}

// CreateLink creates an interface of a kind on FreeBSD, such as tap, and gives
// it a name. It returns the name that the system had given to it.
func CreateLink(ctx context.Context, host conn.Conn, kind, name string) (was string, err error) {
	if was, err = Output(ctx, host, "ifconfig", kind, "create"); err != nil {
		return "", err
	}
	if !strings.HasPrefix(was, kind) {
		return "", fault.New(fault.Lab, "ifconfig created a %s with the name %q", kind, safetext.Line(was))
	}
	if err := Run(ctx, host, "ifconfig", was, "name", name); err != nil {
		// Reap would not find it without the name.
		Run(context.WithoutCancel(ctx), host, "ifconfig", was, "destroy")
		return "", err
	}
	return was, nil
}

// Sweep finds what an environment left on Host, and removes it unless DryRun. A
// step that fails does not stop the next one.
type Sweep struct {
	Host   conn.Conn
	DryRun bool
	// Found has one line for each thing that was found.
	Found []string
	errs  []error
}

// Ask executes a command whose exit code is an answer. If the host does not
// have the program the answer is no: the program cannot have created anything.
func (s *Sweep) Ask(ctx context.Context, argv ...string) (out string, yes bool) {
	out, yes, err := Ask(ctx, s.Host, argv...)
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.errs = append(s.errs, err)
	}
	return out, yes
}

// Remove adds what to Found and removes it with argv.
func (s *Sweep) Remove(ctx context.Context, what string, argv ...string) {
	s.Found = append(s.Found, what)
	if !s.DryRun {
		s.errs = append(s.errs, Run(ctx, s.Host, argv...))
	}
}

// Err joins the errors of all steps.
func (s *Sweep) Err() error { return errors.Join(s.errs...) }

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/provision/service"
	"bakeoff/reach/conn"
)

// capabilities are those that programs which install something need. They are the usual
// ones of containers.
var capabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT"}

// agentAt is where a step sees the agent: on a file system of its own, which is not part
// of the root.
const agentAt = "/dev/.bakeoff-agent"

// shown are how many lines of the output of a failed step people see.
const shown = 30

// run executes a program in the root, in namespaces of its own, without a network unless
// the step asks for it. It ends with this process.
func (b *builder) run(ctx context.Context, s service.Step) error {
	argv, restore, err := b.sandbox(s.Run)
	if err != nil {
		return err
	}
	defer restore()
	out := &conn.Tail{Limit: 64 << 10}
	start := time.Now()
	exit, err := b.store.Host.Exec(ctx, conn.Cmd{Argv: argv, Stdout: out, Stderr: out})
	if fault.Is(err, fault.NotFound) || err == nil && exit.Code == 127 && !installed("bwrap") {
		return fault.WithFix(fault.New(fault.Unsupported, "bakeoff runs the steps of a service in bwrap, which is "+
			"not installed"),
			"apt-get install bubblewrap")
	}
	if err != nil {
		return err
	}
	if !exit.OK() {
		err = fault.New(fault.Invalid, "the step failed after %s: %v: %s", since(start), exit, firstLine(s.Text))
		said := usage.ReplaceAll(out.Bytes(), nil)
		if text := safetext.LastLines(string(said), shown); text != "" {
			err = fault.New(fault.Invalid, "%w; its output ends with:\n%s", err, text)
		}
		return fault.WithFix(err, "correct the step and build again")
	}
	return nil
}

// usage is the line of the agent, which says what the program used.
var usage = lazy.Compile(`(?m)^[0-9.]+ s wall, [0-9.]+ s user, [0-9.]+ s system$`)

func installed(program string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// sandbox is the command line of a step, and what restores the root after it.
func (b *builder) sandbox(r *service.Run) (argv []string, restore func(), err error) {
	restore = func() {}
	// One stream keeps the order of what a step prints.
	argv = []string{"sh", "-c", `exec "$@" 2>&1`, "sh", "flock", "--no-fork", b.work.Lease, "bwrap",
		"--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--hostname", b.def.Name, "--cap-drop", "ALL"}
	for _, c := range capabilities {
		argv = append(argv, "--cap-add", c)
	}
	argv = append(argv, "--bind", b.root, "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", b.Agent, agentAt)
	if r.Network {
		resolv := filepath.Join(b.root, "etc/resolv.conf")
		if _, err := os.Lstat(resolv); err != nil {
			if _, err := b.folder("/etc"); err != nil {
				return nil, restore, err
			}
			restore = func() { _ = os.Remove(resolv) } // bwrap creates an empty file to mount on
		}
		argv = append(argv, "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf")
	} else {
		argv = append(argv, "--unshare-net")
	}
	argv = append(argv, "--chdir", "/", "--clearenv",
		"--setenv", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"--setenv", "HOME", "/root", "--setenv", "LC_ALL", "C.UTF-8", "--setenv", "DEBIAN_FRONTEND", "noninteractive",
		"--setenv", "SOURCE_DATE_EPOCH", fmt.Sprint(epoch.Unix()))
	for _, e := range r.Env {
		name, value := cut(e)
		argv = append(argv, "--setenv", name, value)
	}
	argv = append(argv, "--", agentAt, "exec")
	if r.Dir != "" {
		argv = append(argv, "--dir", r.Dir)
	}
	if r.User != "" {
		argv = append(argv, "--user", r.User)
	}
	return append(append(argv, "--"), r.Argv...), restore, nil
}

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// entry describes where a program runs.
type entry struct {
	cgroups  []string
	cpus     string
	private  bool
	umount   []string
	binds    []wire.Bind
	pid      int
	ns       string
	netns    string
	root     string
	dir      string
	clearEnv bool
	env      []string
	noPrivs  bool
	report   bool
	socket   string
	argv     []string
}

// Enter executes a program in the place that the flags describe, and so does
// not return. If that is impossible, it prints the reason on standard error and
// exits with 125, 126 (not executable) or 127 (not found); Entered reads that
// on the other side.
//
//	bakeoff-agent enter [--cgroup DIR]… [--cpus LIST] [--private-mounts [--umount DIR]… [--bind FROM:TO]…]
//	    [--pid PID --ns mnt,pid,net,…] [--netns NAME|PATH] [--chroot ROOT] [--dir DIR]
//	    [--clear-env] [--env NAME=VALUE]… [--no-new-privs] [--report] [--mark WORD] [--proxy SOCKET]
//	    -- PROGRAM ARGUMENT…
//
// It stays as the parent process if it enters a PID namespace, which only
// children join (setns(2)); with --report, to report the signal that ended the
// program over connections that pass only a number; and with --proxy, as the
// proxy itself (see proxy).
func Enter(args []string) error {
	err := enter(args)
	fmt.Fprintf(os.Stderr, "%s%v\n", enterMark, err)
	os.Exit(enterCode(err))
	return err
}

// enterCode is the exit code that says why a program could not be executed.
func enterCode(err error) int {
	switch {
	case fault.Is(err, fault.NotFound):
		return enterNotFound
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC):
		return enterNotExecutable
	}
	return enterFailed
}

func parseEntry(args []string) (e entry, err error) {
	f := flag.NewFlagSet("enter", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, s); return nil }
	}
	f.Func("cgroup", "directory of a cgroup to join; may be repeated", list(&e.cgroups))
	f.StringVar(&e.cpus, "cpus", "", "CPUs to run on, such as 0,2-3")
	f.BoolVar(&e.private, "private-mounts", false, "use a private mount namespace")
	f.Func("umount", "unmount this directory in it; may be repeated", list(&e.umount))
	f.Func("bind", "FROM:TO, bind-mount FROM on TO in it; may be repeated", func(s string) error {
		from, to, ok := strings.Cut(s, ":")
		if !ok || !filepath.IsAbs(from) || !filepath.IsAbs(to) {
			return fault.New(fault.Invalid, "--bind must be FROM:TO, two absolute paths (got %q)", s)
		}
		e.binds = append(e.binds, wire.Bind{From: from, To: to})
		return nil
	})
	f.IntVar(&e.pid, "pid", 0, "process whose namespaces to enter")
	f.StringVar(&e.ns, "ns", "", "which namespaces to enter: user,cgroup,ipc,uts,net,pid,mnt")
	f.StringVar(&e.netns, "netns", "", "network namespace to enter, name or path")
	f.StringVar(&e.root, "chroot", "", "root directory")
	f.StringVar(&e.dir, "dir", "", "working directory, inside the root")
	f.BoolVar(&e.clearEnv, "clear-env", false, "start from an empty environment")
	f.Func("env", "NAME=VALUE", list(&e.env))
	f.BoolVar(&e.report, "report", false, "report the signal that ended the program")
	f.StringVar(&e.socket, "proxy", "",
		"pass the connections to this socket to an init process, on the program's standard input")
	f.String("mark", "", "a word by which this process can be found; no other effect")
	f.BoolVar(&e.noPrivs, "no-new-privs", false, "set no_new_privs")
	if err := f.Parse(args); err != nil {
		return e, fault.Wrap(fault.Invalid, "", err)
	}
	if e.argv = f.Args(); len(e.argv) == 0 {
		return e, fault.New(fault.Invalid, "no program given after --")
	}
	if len(e.umount)+len(e.binds) > 0 && !e.private {
		return e, fault.New(fault.Invalid, "--umount and --bind require --private-mounts")
	}
	if (e.pid == 0) != (e.ns == "") {
		return e, fault.New(fault.Invalid, "--pid and --ns require each other")
	}
	return e, nil
}

func enter(args []string) error {
	e, err := parseEntry(args)
	if err != nil {
		return err
	}
	if e.socket != "" {
		return e.proxy()
	}
	if err := e.occupy(); err != nil {
		return err
	}
	return e.execute()
}

// occupy moves this thread to the place of the program. Affinity, namespaces
// and root belong to a thread, and exec keeps those of the calling thread.
func (e entry) occupy() error {
	runtime.LockOSThread()
	for _, dir := range e.cgroups {
		if err := e.join(dir); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	if err := setCPUs(e.cpus); err != nil {
		return err
	}
	if err := e.namespaces(); err != nil {
		return err
	}
	return e.place()
}

// join moves this process to a cgroup; "0" is the writing process (cgroups(7)).
// To move a process, the kernel waits until no CPU is creating or ending a
// thread, about 10 ms. Version 1 can move a single thread at once, which
// suffices: the others end when this one executes the program. In version 2
// this process may have been started in the group.
func (e entry) join(dir string) error {
	procs, tasks := filepath.Join(dir, "cgroup.procs"), filepath.Join(dir, "tasks")
	if !e.stays() {
		if err := moveTo(tasks); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if members, err := os.ReadFile(procs); err == nil && slices.Contains(strings.Fields(string(members)),
		strconv.Itoa(os.Getpid())) {
		return nil
	}
	return moveTo(procs)
}

func moveTo(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("0")
	return errors.Join(err, f.Close())
}

// stays reports whether this process becomes the program's parent instead of
// the program.
func (e entry) stays() bool {
	return e.report || slices.Contains(strings.Split(e.ns, ","), "pid")
}

func setCPUs(list string) error {
	if list == "" {
		return nil
	}
	var set unix.CPUSet
	cpus, err := probe.ParseCPUs(list)
	if err == nil && cpus[len(cpus)-1] >= len(set)*64 {
		err = fmt.Errorf("%q is not a list of CPUs below %d", list, len(set)*64)
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, "", err)
	}
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPUs %s: %w", list, err)
	}
	return nil
}

// clone maps the names in /proc/PID/ns to flags, in the order of entering: the
// mount namespace last, because it hides /proc.
var clone = []struct {
	name string
	flag int
}{
	{"user", unix.CLONE_NEWUSER}, {"cgroup", unix.CLONE_NEWCGROUP}, {"ipc", unix.CLONE_NEWIPC},
	{"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS},
}

func (e entry) namespaces() error {
	if e.private || e.pid != 0 {
		// Only a task that shares its root and working directory with
		// no other can change its mount namespace (setns(2), EINVAL).
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
	}
	if e.private {
		if err := privateMounts(e.umount, e.binds); err != nil {
			return err
		}
	}
	if e.netns != "" {
		path := e.netns
		if !filepath.IsAbs(path) {
			path = filepath.Join("/run/netns", filepath.Base(path))
		}
		if err := setns(path, unix.CLONE_NEWNET); err != nil {
			return err
		}
	}
	if e.pid == 0 {
		return nil
	}
	wanted := strings.Split(e.ns, ",")
	for _, w := range wanted {
		if !isNamespace(w) {
			return fault.New(fault.Invalid, "unknown kind of namespace %q", w)
		}
	}
	for _, n := range clone {
		for _, w := range wanted {
			if w == n.name {
				if err := setns(fmt.Sprintf("/proc/%d/ns/%s", e.pid, n.name), n.flag); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func isNamespace(name string) bool {
	for _, n := range clone {
		if n.name == name {
			return true
		}
	}
	return false
}

func setns(path string, flag int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("namespace %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), flag); err != nil {
		return fmt.Errorf("enter namespace %s: %w", path, err)
	}
	return nil
}

func privateMounts(umount []string, binds []wire.Bind) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, dir := range umount {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
	for _, b := range binds {
		if err := unix.Mount(b.From, b.To, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", b.From, b.To, err)
		}
	}
	return nil
}

// place sets root, directory, environment and privileges.
func (e entry) place() error {
	if e.root != "" {
		if err := unix.Chroot(e.root); err != nil {
			return fmt.Errorf("chroot %s: %w", e.root, err)
		}
	}
	if e.root != "" || e.dir != "" {
		dir := e.dir
		if dir == "" {
			dir = "/"
		}
		if err := unix.Chdir(dir); err != nil {
			return fmt.Errorf("working directory %s: %w", dir, err)
		}
	}
	if e.clearEnv {
		os.Clearenv()
	}
	for _, v := range e.env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return fault.New(fault.Invalid, "environment %q: %w", v, err)
		}
	}
	if e.noPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	return nil
}

func (e entry) execute() error {
	path, err := exec.LookPath(e.argv[0])
	if err != nil {
		return notFound(err)
	}
	if e.stays() {
		return e.attend(path)
	}
	return notFound(syscall.Exec(path, e.argv, os.Environ()))
}

// notFound classifies the errors of looking up and executing a program.
func notFound(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, "", err)
	}
	return err
}

// attend runs the program as a child and ends with its exit status. The child
// has no parent-death signal: its parent is outside its PID namespace, which
// syscall.SysProcAttr mistakes for a dead parent.
func (e entry) attend(path string) error {
	p := &exec.Cmd{Path: path, Args: e.argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	// Pass signals on to the program. It gets those of the terminal itself,
	// because it is in our process group; they are caught here, not
	// ignored, because a program inherits ignored signals.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	if err := p.Start(); err != nil {
		return notFound(err)
	}
	go func() {
		for s := range signals {
			p.Process.Signal(s)
		}
	}()
	if err := p.Wait(); p.ProcessState == nil {
		return err
	}
	ws := p.ProcessState.Sys().(syscall.WaitStatus)
	if !ws.Signaled() {
		os.Exit(ws.ExitStatus())
	}
	if e.report {
		// On a separate line, whatever the program printed last.
		fmt.Fprintf(os.Stderr, "\n%s%s%s\n", enterMark, signalMark, ws.Signal())
		os.Exit(128 + int(ws.Signal()))
	}
	dieOf(ws.Signal())
	return nil
}

// dieOf ends this process by a signal, without a core file.
func dieOf(s syscall.Signal) {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	signal.Reset(s)
	resetHandler(s)
	// To this thread, which takes it before it goes on: another thread might take it
	// too late.
	runtime.LockOSThread()
	unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	os.Exit(128 + int(s)) // for a signal that does not end a process
}

// resetHandler restores the default action of a signal. The Go runtime keeps
// handlers for the signals of program errors, which would print all stacks and
// exit with 2.
func resetHandler(s syscall.Signal) {
	var act [4]uint64 // struct sigaction of the kernel: SIG_DFL, no flags, empty mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
}

package nsenter

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Entry describes where a program runs.
type Entry struct {
	Cgroups []string
	Socket  string   // of a proxy, see agent; "" is none
	Argv    []string // the program
	// Placed are files, as FROM and TO. Place shows them, in a mount namespace of this
	// thread.
	Placed   [][2]string
	Place    func(placed [][2]string) error
	cpus     string
	private  bool
	umount   []string
	binds    [][2]string
	pid      int
	ns       string
	netns    string
	root     string
	dir      string
	clearEnv bool
	env      []string
	noPrivs  bool
	report   bool
	await    bool
}

// flags returns the flags of enter: those with a value, by name, and those
// without.
func (e *Entry) flags() (values map[string]func(string) error, switches map[string]*bool) {
	text := func(to *string) func(string) error {
		return func(s string) error { *to = s; return nil }
	}
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, s); return nil }
	}
	return map[string]func(string) error{
			"cgroup": list(&e.Cgroups), "cpus": text(&e.cpus), "umount": list(&e.umount), "bind": pairs("--bind", &e.binds),
			"place": pairs("--place", &e.Placed),
			"pid":   e.setPID, "ns": text(&e.ns), "netns": text(&e.netns), "chroot": text(&e.root), "dir": text(&e.dir),
			"env": list(&e.env), "proxy": text(&e.Socket), "mark": func(string) error { return nil },
		}, map[string]*bool{"private-mounts": &e.private, "clear-env": &e.clearEnv, "report": &e.report,
			"no-new-privs": &e.noPrivs, "await": &e.await}
}

// pairs returns the setter of a flag with two absolute paths. The first colon before a
// slash separates them.
func pairs(flag string, to *[][2]string) func(string) error {
	return func(s string) error {
		for i := 1; i+1 < len(s); i++ {
			if s[0] == '/' && s[i] == ':' && s[i+1] == '/' {
				*to = append(*to, [2]string{s[:i], s[i+1:]})
				return nil
			}
		}
		return errors.New(flag + " must be FROM:TO, two absolute paths (got " + quoted(s) + ")")
	}
}

func (e *Entry) setPID(s string) (err error) {
	if e.pid, err = strconv.Atoi(s); err != nil {
		return wrapFailure("--pid", err)
	}
	return nil
}

// parseFlags parses flags as package flag does, and returns the arguments after
// them.
func parseFlags(args []string, values map[string]func(string) error, switches map[string]*bool) ([]string, error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		name := args[0][1:]
		args = args[1:]
		if name[0] == '-' {
			name = name[1:]
		}
		if name == "" {
			break
		}
		name, value, given := cut(name, '=')
		if b := switches[name]; b != nil {
			*b = !given || value == "true"
			continue
		}
		set := values[name]
		if set == nil {
			return nil, errors.New("flag provided but not defined: -" + name)
		}
		if !given {
			if len(args) == 0 {
				return nil, errors.New("flag needs an argument: -" + name)
			}
			value, args = args[0], args[1:]
		}
		if err := set(value); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// Parse parses the arguments of `bakeoff-agent enter`.
//
//	bakeoff-agent enter [--await] [--cgroup DIR]… [--cpus LIST]
//	    [--private-mounts [--umount DIR]… [--bind FROM:TO]… [--place FROM:TO]…]
//	    [--pid PID --ns mnt,pid,net,…] [--netns NAME|PATH] [--chroot ROOT] [--dir DIR]
//	    [--clear-env] [--env NAME=VALUE]… [--no-new-privs] [--report] [--mark WORD] [--proxy SOCKET]
//	    -- PROGRAM ARGUMENT…
//
// With --await it first reads Ready from standard input: it may start before
// the place exists. --place shows a file or folder read-only at TO, even if TO
// does not exist. --mark has no effect; the process can be found by its word.
func Parse(args []string) (e Entry, err error) {
	values, switches := e.flags()
	if e.Argv, err = parseFlags(args, values, switches); err != nil {
		return e, err
	}
	switch {
	case len(e.Argv) == 0:
		return e, errors.New("no program given after --")
	case len(e.umount)+len(e.binds)+len(e.Placed) > 0 && !e.private:
		return e, errors.New("--umount, --bind and --place require --private-mounts")
	case (e.pid == 0) != (e.ns == ""):
		return e, errors.New("--pid and --ns can be used only together")
	}
	return e, nil
}

// Exit prints why the program could not be executed, and ends this process with
// the exit code that says so.
func Exit(err error) {
	io.WriteString(os.Stderr, Mark+err.Error()+"\n")
	os.Exit(Code(err))
}

// Code is the exit code that says why a program could not be executed.
func Code(err error) int {
	switch {
	case errors.As(err, new(Missing)):
		return NotFound
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC):
		return NotExecutable
	}
	return Failed
}

// Run executes the program in its place and so does not return, except with an
// error. It stays as the parent process if it enters a PID namespace, which
// only children join (setns(2)), and with --report.
func (e Entry) Run() error {
	if err := e.Await(); err != nil {
		return err
	}
	if err := e.Occupy(); err != nil {
		return err
	}
	return e.execute()
}

// Await waits, with --await, until the place exists.
func (e Entry) Await() error {
	if !e.await {
		return nil
	}
	said := make([]byte, len(Ready))
	if n, err := io.ReadFull(os.Stdin, said); err != nil || string(said) != Ready {
		return errors.New("--await: standard input begins with " + quoted(string(said[:n])) + " and not with \"ready\"")
	}
	return nil
}

// Occupy moves this thread to the place of the program. Affinity, namespaces
// and root belong to a thread, and exec keeps those of the calling thread.
func (e Entry) Occupy() error {
	runtime.LockOSThread()
	for _, dir := range e.Cgroups {
		if err := e.joinCgroup(dir); err != nil {
			return wrapFailure("join cgroup", err)
		}
	}
	if err := setCPUs(e.cpus); err != nil {
		return err
	}
	if err := e.namespaces(); err != nil {
		return err
	}
	return e.applySettings()
}

// joinCgroup moves this process to a cgroup; "0" is the writing process (cgroups(7)).
// To move a process, the kernel waits until no CPU is creating or ending a
// thread, about 10 ms. Version 1 can move a single thread at once, which
// suffices: the others end when this one executes the program. In version 2
// this process may have been started in the group.
func (e Entry) joinCgroup(dir string) error {
	procs, tasks := dir+"/cgroup.procs", dir+"/tasks"
	if !e.staysAsParent() {
		if err := moveTo(tasks); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if members, err := os.ReadFile(procs); err == nil && contains(fields(string(members)), strconv.Itoa(os.Getpid())) {
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

// staysAsParent reports whether this process becomes the program's parent instead of
// the program.
func (e Entry) staysAsParent() bool { return e.report || contains(split(e.ns, ','), "pid") }

// maxCPU bounds the numbers of CPUs: those of a cpu_set_t (sched_setaffinity(2)).
const maxCPU = 1024

// cpuMask is a set of CPUs as the kernel reads it.
type cpuMask [maxCPU / (8 * unsafe.Sizeof(uintptr(0)))]uintptr

// parseCPUs reads a list of CPUs, such as 0,2-3.
func parseCPUs(list string) (m cpuMask, ok bool) {
	const word = int(8 * unsafe.Sizeof(uintptr(0)))
	for _, part := range split(list, ',') {
		from, to, isRange := cut(part, '-')
		if !isRange {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || a < 0 || b < a || b >= maxCPU {
			return m, false
		}
		for c := a; c <= b; c++ {
			m[c/word] |= 1 << (c % word)
		}
	}
	return m, true
}

func setCPUs(list string) error {
	if list == "" {
		return nil
	}
	mask, ok := parseCPUs(list)
	if !ok {
		return errors.New(quoted(list) + " is not a list of CPUs below " + strconv.Itoa(maxCPU))
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask),
		uintptr(unsafe.Pointer(&mask))); e != 0 {
		return wrapFailure("CPUs "+list, e)
	}
	return nil
}

// clone maps the names in /proc/PID/ns to flags, in the order of entering: the
// mount namespace last, because it hides /proc.
var clone = []struct {
	name string
	flag int
}{
	{"user", syscall.CLONE_NEWUSER}, {"cgroup", 0x02000000}, {"ipc", syscall.CLONE_NEWIPC},
	{"uts", syscall.CLONE_NEWUTS}, {"net", syscall.CLONE_NEWNET}, {"pid", syscall.CLONE_NEWPID},
	{"mnt", syscall.CLONE_NEWNS},
}

func (e Entry) namespaces() error {
	if e.private || e.pid != 0 {
		// Only a task that shares its root and working directory with
		// no other can change its mount namespace (setns(2), EINVAL).
		if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
			return wrapFailure("unshare", err)
		}
	}
	if e.private {
		if err := e.privateMounts(); err != nil {
			return err
		}
		if len(e.Placed) > 0 {
			if err := e.Place(e.Placed); err != nil {
				return err
			}
		}
	}
	if e.netns != "" {
		path := e.netns
		if path[0] != '/' {
			path = "/run/netns/" + baseName(path)
		}
		if err := Setns(path, syscall.CLONE_NEWNET); err != nil {
			return err
		}
	}
	if e.pid == 0 {
		return nil
	}
	wanted := split(e.ns, ',')
	for _, w := range wanted {
		if !isNamespace(w) {
			return errors.New("unknown kind of namespace " + quoted(w))
		}
	}
	for _, n := range clone {
		if contains(wanted, n.name) {
			if err := Setns("/proc/"+strconv.Itoa(e.pid)+"/ns/"+n.name, n.flag); err != nil {
				return err
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

// Setns moves the calling thread to the namespace at path, whose kind is flag.
func Setns(path string, flag int) error {
	f, err := os.Open(path)
	if err != nil {
		return wrapFailure("namespace", err)
	}
	defer f.Close()
	if _, _, e := syscall.RawSyscall(sysSetns, f.Fd(), uintptr(flag), 0); e != 0 {
		return wrapFailure("enter namespace "+path, e)
	}
	return nil
}

func (e Entry) privateMounts() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return wrapFailure("mount namespace", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return wrapFailure("make mounts private", err)
	}
	for _, dir := range e.umount {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			return wrapFailure("unmount "+dir, err)
		}
	}
	for _, b := range e.binds {
		if err := syscall.Mount(b[0], b[1], "", syscall.MS_BIND, ""); err != nil {
			return wrapFailure("bind "+b[0]+" to "+b[1], err)
		}
	}
	return nil
}

// prSetNoNewPrivs is PR_SET_NO_NEW_PRIVS (prctl(2)).
const prSetNoNewPrivs = 38

// applySettings sets root, directory, environment and privileges.
func (e Entry) applySettings() error {
	if e.root != "" {
		if err := syscall.Chroot(e.root); err != nil {
			return wrapFailure("chroot "+e.root, err)
		}
	}
	if e.root != "" || e.dir != "" {
		dir := e.dir
		if dir == "" {
			dir = "/"
		}
		if err := syscall.Chdir(dir); err != nil {
			return wrapFailure("working directory "+dir, err)
		}
	}
	if e.clearEnv {
		os.Clearenv()
	}
	for _, v := range e.env {
		name, value, _ := cut(v, '=')
		if err := os.Setenv(name, value); err != nil {
			return wrapFailure("environment "+quoted(v), err)
		}
	}
	if e.noPrivs {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
			return wrapFailure("no_new_privs", errno)
		}
	}
	return nil
}

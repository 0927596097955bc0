package nsenter

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Missing is the error for a program that does not exist.
type Missing struct{ err error }

func (m Missing) Error() string { return m.err.Error() }
func (m Missing) Unwrap() error { return m.err }

// AsMissing returns err, as a Missing if it says that a program does not exist.
func AsMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Missing{err}
	}
	return err
}

var errNoProgram = errors.New("executable file not found in $PATH")

// findProgram returns the file to execute: name, or the file with this name in a
// directory of path. It ignores directories that are not absolute, as package
// os/exec does.
//
// Source: execvp(3).
func findProgram(name, path string) (string, error) {
	for _, dir := range split(path, ':') {
		if index(name, '/') >= 0 {
			return name, nil
		}
		if dir == "" || dir[0] != '/' {
			continue
		}
		file := dir + "/" + name
		if s, err := os.Stat(file); err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", Missing{wrapFailure("exec: "+quoted(name), errNoProgram)}
}

func (e Entry) execute() error {
	path, err := findProgram(e.Argv[0], os.Getenv("PATH"))
	if err != nil {
		return err
	}
	if e.staysAsParent() {
		return e.runAsChild(path)
	}
	return AsMissing(wrapFailure("exec "+path, syscall.Exec(path, e.Argv, os.Environ())))
}

// runAsChild runs the program as a child and ends with its exit status. The child
// has no parent-death signal: its parent is outside its PID namespace, which
// syscall.SysProcAttr mistakes for a dead parent.
func (e Entry) runAsChild(path string) error {
	// Pass signals on to the program. It gets those of the terminal itself,
	// because it is in our process group; they are caught here, not
	// ignored, because a program inherits ignored signals.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	p, err := os.StartProcess(path, e.Argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return AsMissing(err)
	}
	go func() {
		for s := range signals {
			p.Signal(s)
		}
	}()
	state, err := p.Wait()
	if err != nil {
		return err
	}
	ws := state.Sys().(syscall.WaitStatus)
	if !ws.Signaled() {
		os.Exit(ws.ExitStatus())
	}
	if e.report {
		// On a separate line, whatever the program printed last.
		io.WriteString(os.Stderr, "\n"+Mark+SignalMark+ws.Signal().String()+"\n")
		os.Exit(128 + int(ws.Signal()))
	}
	DieOf(ws.Signal())
	return nil
}

// DieOf ends this process by a signal, without a core file.
func DieOf(s syscall.Signal) {
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	signal.Reset(s)
	resetHandler(s)
	// To this thread, which takes it before it goes on: another thread might take it
	// too late.
	runtime.LockOSThread()
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(s))
	os.Exit(128 + int(s)) // for a signal that does not end a process
}

// resetHandler restores the default action of a signal. The Go runtime keeps
// handlers for the signals of program errors, which would print all stacks and
// exit with 2.
func resetHandler(s syscall.Signal) {
	var act [4]uint64 // struct sigaction of the kernel: SIG_DFL, no flags, empty mask
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
}

// KillTree kills pid's process group and all descendants of pid, including
// those in groups or sessions of their own. It does not find processes that
// init has adopted; cgroups do.
func KillTree(pid int) {
	// Stopping first keeps it from starting more during the search.
	syscall.Kill(-pid, syscall.SIGSTOP)
	below := descendants(pid)
	syscall.Kill(-pid, syscall.SIGKILL)
	for _, p := range below {
		syscall.Kill(p, syscall.SIGKILL)
	}
}

// Children lists the processes that pid has started and that have not ended.
func Children(pid int) []int { return childrenOfAll()[pid] }

// childrenOfAll are the children of each process that has some.
func childrenOfAll() map[int][]int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if name := e.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if p, parent, ok := parseStat(string(b)); ok {
			children[parent] = append(children[parent], p)
		}
	}
	return children
}

// descendants lists the processes below pid, up to a bound.
func descendants(pid int) []int {
	children := childrenOfAll()
	var out []int
	for todo := []int{pid}; len(todo) > 0 && len(out) < 1<<15; todo = todo[1:] {
		out = append(out, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return out
}

// parseStat reads the PID and the parent PID from a line of /proc/PID/stat
// (proc(5)). The name in parentheses may contain any character, parentheses
// included.
func parseStat(s string) (pid, parent int, ok bool) {
	open, end := index(s, '('), len(s)-1
	for end >= 0 && s[end] != ')' {
		end--
	}
	if open < 1 || end < open {
		return 0, 0, false
	}
	before, after := fields(s[:open]), fields(s[end+1:])
	if len(before) != 1 || len(after) < 2 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(before[0])
	parent, err2 := strconv.Atoi(after[1])
	return pid, parent, err == nil && err2 == nil && pid > 0 && parent >= 0
}

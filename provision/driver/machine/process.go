package machine

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// linuxProcesses prints the files of /proc that have one of the texts in its input, and then
// what the kernel says of every process. The texts are not in its own command line.
const linuxProcesses = `grep -lsF -f - /proc/[0-9]*/environ /proc/[0-9]*/cmdline; echo
cat /proc/[0-9]*/stat 2>/dev/null; :`

// illumosProcesses prints the environment of every process, and then what ps says, whose
// command lines end after 80 characters.
const illumosProcesses = `pargs -e /proc/[0-9]* 2>/dev/null; echo ` + listed + `
ps -A -o pid= -o ppid= -o args=`

// listed is the line between the two.
const listed = "the processes:"

// processesOf lists the processes of an environment: those that have its variable or a path
// in its folder, and those that such a process started. Programs that go into the background
// are among them as long as the system shows the variable or the path: a server that changes
// its title keeps the path of its configuration.
func (k kernel) processesOf(ctx context.Context, host conn.Conn, left driver.Leftover) ([]process, error) {
	marks := []string{Mark(left.Label)}
	if left.Dir != "" && left.Dir != "/" {
		marks = append(marks, strings.TrimSuffix(left.Dir, "/")+"/")
	}
	cmd := conn.Cmd{Argv: k.processes, Env: []string{"LC_ALL=C"}} // whose output is parsed
	if k.goos == "linux" {
		cmd.Argv, cmd.Stdin = []string{"sh", "-c", linuxProcesses}, strings.NewReader(strings.Join(marks, "\n")+"\n")
	}
	out, err := conn.OutputOf(ctx, host, cmd)
	if err != nil {
		return nil, fault.Op("list processes", err)
	}
	t, text := processTree{}, string(out)
	switch k.goos {
	case "linux":
		t.readProc(text)
	case "illumos":
		environments, list, _ := strings.Cut(text, "\n"+listed+"\n")
		t.readPS(list, marks)
		t.readPargs(environments, marks[0])
	default:
		t.readPS(text, marks)
	}
	return t.marked(), nil
}

// processTree is what a system says of its processes, by their numbers.
type processTree map[int]node

type node struct {
	parent int
	name   string
	marked bool
}

// readProc reads the output of linuxProcesses.
func (t processTree) readProc(text string) {
	files, stats, _ := strings.Cut("\n"+text, "\n\n")
	for line := range strings.Lines(stats) {
		// PID (NAME) STATE PARENT …, and NAME may have any character.
		open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
		if open < 1 || end < open {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
		f := strings.Fields(line[end+1:])
		if err != nil || len(f) < 2 || f[0] == "Z" {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			t[pid] = node{parent, safetext.Line(line[open+1 : end]), false}
		}
	}
	for line := range strings.Lines(files) {
		f := strings.Split(strings.TrimSpace(line), "/") // /proc/PID/environ
		if len(f) != 4 {
			continue
		}
		if pid, err := strconv.Atoi(f[2]); err == nil {
			t.mark(pid)
		}
	}
}

func (t processTree) mark(pid int) {
	if n, ok := t[pid]; ok {
		n.marked = true
		t[pid] = n
	}
}

// readPS reads lines with a number, the parent's number and a command line.
func (t processTree) readPS(text string, marks []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		parent, perr := strconv.Atoi(f[1])
		if err != nil || perr != nil {
			continue
		}
		t[pid] = node{parent, safetext.Line(f[2]), false}
		for _, m := range marks {
			if strings.Contains(line, m) {
				t.mark(pid)
			}
		}
	}
}

// readPargs reads what pargs -e prints of processes: "123:" and the command, then a line
// "envp[0]: NAME=VALUE" for each variable.
func (t processTree) readPargs(text, mark string) {
	pid := 0
	for line := range strings.Lines(text) {
		number, rest, ok := strings.Cut(line, ":")
		if n, err := strconv.Atoi(number); ok && err == nil {
			pid = n
		} else if strings.HasPrefix(number, "envp[") && strings.TrimSpace(rest) == mark {
			t.mark(pid)
		}
	}
}

// marked are the processes with a mark and all below them. Process 1 and 0 are never among
// them.
func (t processTree) marked() []process {
	var out []process
	for pid, n := range t {
		for at, steps := pid, 0; at > 1 && steps < 1000; at, steps = t[at].parent, steps+1 {
			if t[at].marked {
				out = append(out, process{pid, n.name})
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

// How long the processes of an environment may take to end after they were killed, and how
// often they are looked for.
const (
	endTime = time.Minute // an emulated machine under load lists its processes in seconds
	endStep = 20 * time.Millisecond
)

// reapProcesses kills the processes of an environment and waits for their end. It returns
// those that it found first; with dryRun it changes nothing.
func (k kernel) reapProcesses(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string,
	error) {
	var found []string
	for began, first := time.Now(), true; ; first = false {
		list, err := k.processesOf(ctx, host, left)
		if err != nil || len(list) == 0 {
			return found, err
		}
		argv := []string{"sh", "-c", `kill -9 "$@" 2>/dev/null; :`, "sh"}
		for _, p := range list {
			argv = append(argv, strconv.Itoa(p.pid))
			if first {
				found = append(found, p.String())
			}
		}
		switch {
		case dryRun:
			return found, nil
		case time.Since(began) > endTime:
			return found, fault.New(fault.Lab, "%s does not end after it was killed", list[0])
		}
		if _, err := conn.Output(ctx, host, argv...); err != nil {
			return found, err
		}
		time.Sleep(endStep)
	}
}

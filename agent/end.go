package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"bakeoff/fault"
)

// runEnd kills what `enter --mark WORD` started, with all that descends from
// it, for environments whose processes the host does not see. That there is
// none is an error of kind fault.NotFound.
func runEnd(c call) int {
	if len(c.args) != 1 || c.args[0] == "" {
		return c.fail(fault.New(fault.Invalid, "usage: bakeoff-agent end WORD"))
	}
	return c.done(end("/proc", c.args[0]))
}

// done is fail, and success where there is no error.
func (c call) done(err error) int {
	if err == nil {
		return ExitOK
	}
	return c.fail(err)
}

func end(proc, word string) error {
	found, err := marked(proc, word, os.Getpid())
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fault.New(fault.NotFound, "no process is marked %q", word)
	}
	// The first is who would go on to start more. What is born in between is
	// found by whoever asks again.
	for _, pid := range found {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	return nil
}

// marked lists the process that has word among its arguments, and then its
// descendants; not itself, which has it too.
func marked(proc, word string, self int) ([]int, error) {
	names, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == self {
			continue
		}
		line, err := os.ReadFile(filepath.Join(name, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		// The word of a program that runs enter is enter's; a program further
		// down may have it by chance, and is killed with it anyway.
		if args := strings.Split(string(line), "\x00"); len(found) == 0 && slices.Contains(args, word) && slices.Contains(args, "--mark") {
			found = append(found, pid)
		}
		if stat, err := os.ReadFile(filepath.Join(name, "stat")); err == nil {
			parent := parentOf(string(stat))
			children[parent] = append(children[parent], pid)
		}
	}
	for i := 0; i < len(found) && len(found) < 1<<15; i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// parentOf reads the parent from a line of /proc/PID/stat (proc(5)), 0 when
// it is none. The name in parentheses may hold anything, parentheses included.
func parentOf(stat string) int {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

package unixbench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/loop"
)

// concurrent is the number of scripts at once.
const concurrent = 8

// script is one of them, in POSIX shell: it sorts the text, lists and sorts its
// bytes, and counts the lines with a word. $1 is its number, $2 the text. It
// prints the count.
const script = `set -e
sort "$2" >"sorted.$1"
od "sorted.$1" | sort >"dump.$1"
grep the "sorted.$1" | tee "lines.$1" | wc -l
rm -f "sorted.$1" "dump.$1" "lines.$1"
`

// tools are the programs that a script runs.
var tools = []string{"sh", "sort", "od", "grep", "tee", "wc", "rm"}

// shell8 is eight such scripts at once; a round ends when all have ended. The
// programs are those of the system: it measures the start of many small
// programs as the platform ships them.
func shell8(ctx context.Context, env loop.Env) (test, error) {
	if env.Dir == "" {
		return test{}, fault.New(fault.Invalid, "test=shell8 requires a directory; set --dir")
	}
	for _, name := range tools {
		if _, err := exec.LookPath(name); err != nil {
			return test{}, fault.WithFix(fault.New(fault.Unsupported,
				"test=shell8 requires the program %s, which is not in PATH (%s)", name, os.Getenv("PATH")),
				"use an image with a shell and the usual tools")
		}
	}
	dir := filepath.Join(env.Dir, "shell8")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return test{}, err
	}
	source, want := text()
	path := filepath.Join(dir, "text")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		return test{}, err
	}
	rounds := 0
	return test{
		do: func(n int) error {
			for range n {
				rounds++
				if err := scripts(ctx, dir, path, want); err != nil {
					return err
				}
			}
			return nil
		},
		check: func() (string, error) {
			return fmt.Sprintf("%d scripts counted %s lines each", rounds*concurrent, want), nil
		},
		close: func() { os.RemoveAll(dir) },
	}, nil
}

// scripts runs one round.
func scripts(ctx context.Context, dir, path, want string) error {
	running := make([]*exec.Cmd, 0, concurrent)
	said, complained := make([]bytes.Buffer, concurrent), make([]bytes.Buffer, concurrent)
	var failed error
	for i := range concurrent {
		cmd := exec.CommandContext(ctx, "sh", "-c", script, "script", fmt.Sprint(i), path)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said[i], &complained[i]
		if err := cmd.Start(); err != nil {
			failed = fmt.Errorf("start script %d: %w", i, err)
			break
		}
		running = append(running, cmd)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			failed = errors.Join(failed, fault.New(fault.Subject, "script %d: %v: %s", i, err,
				cmp.Or(safetext.LastLines(complained[i].String(), 2), "no message on standard error")))
		} else if got := strings.TrimSpace(said[i].String()); got != want {
			failed = errors.Join(failed, loop.Mismatch(fmt.Sprintf("what script %d counted", i), got, want))
		}
	}
	return failed
}

// text returns the fixed input of the scripts: 500 lines of random words, and
// the number of lines that contain "the".
func text() (lines, counted string) {
	words := []string{"machine", "the", "a", "block", "trial", "of", "order", "and", "noise", "is", "drawn", "by", "lot"}
	var b strings.Builder
	state, n := uint64(1), 0
	for range 500 {
		var line []string
		for range 9 {
			state = state*6364136223846793005 + 1442695040888963407
			line = append(line, words[state>>33%uint64(len(words))])
		}
		s := strings.Join(line, " ")
		if strings.Contains(s, "the") {
			n++
		}
		b.WriteString(s + "\n")
	}
	return b.String(), fmt.Sprint(n)
}

// Package container starts programs in containers: enter, the init process of a container
// with its clients and its proxy, and the process that keeps an environment.
package container

import (
	"bytes"
	"io"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/nsenter"
)

// headBytes is how much of the beginning and of the end of standard error Entered reads.
const headBytes = 512

// Entered runs exec, which executes a command through `bakeoff-agent enter`,
// and distinguishes a failure of enter from a failure of the program: a missing
// program is an error of kind fault.NotFound, any other failure of enter one of
// kind fault.Lab. The standard error of the command does not get the text of such an error.
func Entered(cmd conn.Cmd, exec func(conn.Cmd) (conn.Exit, error)) (conn.Exit, error) {
	head, tail := conn.Head{Limit: headBytes}, conn.Tail{Limit: headBytes}
	passed := withheld{to: cmd.Stderr}
	cmd.Stderr = io.MultiWriter(&head, &tail, &passed)
	exit, err := exec(cmd)
	exit, ferr := failureOf(exit, err, head.Bytes(), tail.Bytes())
	if err != nil || ferr == nil {
		_ = passed.release() // who cannot read it does not end the program
	}
	return exit, ferr
}

// failureOf finds the failure of enter in the beginning and the end of its standard error.
func failureOf(exit conn.Exit, err error, head, tail []byte) (conn.Exit, error) {
	if err != nil || exit.Code < nsenter.Failed || exit.Signal != "" {
		return exit, err
	}
	if exit.Code > 128 {
		if name, ok := strings.CutPrefix(lastLine(tail), nsenter.Mark+nsenter.SignalMark); ok {
			exit.Signal = name
		}
		return exit, nil
	}
	why, ok := strings.CutPrefix(firstLine(head), nsenter.Mark)
	if !ok {
		return exit, nil
	}
	switch exit.Code {
	case nsenter.NotFound:
		return conn.Exit{}, fault.New(fault.NotFound, "%s", why)
	case nsenter.Failed:
		return conn.Exit{}, fault.New(fault.Lab, "enter: %s", why)
	}
	return exit, nil
}

// withheld passes on what a program prints, except a beginning that may be a failure of enter,
// until release.
type withheld struct {
	to    io.Writer // nil: nobody
	begin []byte
	open  bool
}

// Write implements io.Writer.
func (w *withheld) Write(p []byte) (int, error) {
	switch {
	case w.to == nil:
		return len(p), nil
	case w.open:
		return w.to.Write(p)
	}
	w.begin = append(w.begin, p...)
	n := min(len(w.begin), len(nsenter.Mark))
	if string(w.begin[:n]) == nsenter.Mark[:n] && len(w.begin) <= headBytes {
		return len(p), nil
	}
	return len(p), w.release()
}

func (w *withheld) release() error {
	if w.open || w.to == nil {
		return nil
	}
	w.open = true
	_, err := w.to.Write(w.begin)
	return err
}

// firstLine and lastLine are lines of what a program printed.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return strings.TrimSpace(string(line))
}

func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "\n")
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

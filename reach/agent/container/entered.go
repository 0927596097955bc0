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

// Entered runs exec, which executes a command through `bakeoff-agent enter`,
// and distinguishes a failure of enter from a failure of the program: a missing
// program is an error of kind fault.NotFound, any other failure of enter one of
// kind fault.Lab.
func Entered(cmd conn.Cmd, exec func(conn.Cmd) (conn.Exit, error)) (conn.Exit, error) {
	head, tail := conn.Head{Limit: 512}, conn.Tail{Limit: 512}
	cmd.Stderr = conn.Both(io.MultiWriter(&head, &tail), cmd.Stderr)
	exit, err := exec(cmd)
	if err != nil || exit.Code < nsenter.Failed || exit.Signal != "" {
		return exit, err
	}
	if exit.Code > 128 {
		if name, ok := strings.CutPrefix(lastLine(tail.Bytes()), nsenter.Mark+nsenter.SignalMark); ok {
			exit.Signal = name
		}
		return exit, nil
	}
	why, ok := strings.CutPrefix(firstLine(head.Bytes()), nsenter.Mark)
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

// firstLine and lastLine are lines of what a program printed.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return strings.TrimSpace(string(line))
}

func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "\n")
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

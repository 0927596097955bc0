package agent

import (
	"bytes"
	"io"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// The exit codes of `bakeoff-agent enter` if it could not execute the program:
// those of shells and env(1).
const (
	enterFailed        = 125
	enterNotExecutable = 126
	enterNotFound      = 127
)

// enterMark is the prefix of the line that enter prints if it could not execute
// the program.
const enterMark = "bakeoff-agent enter: "

// signalMark precedes the name of the signal that ended the program, in the
// last line of enter --report.
const signalMark = "ended by signal: "

// Entered runs exec, which executes a command through `bakeoff-agent enter`,
// and distinguishes a failure of enter from a failure of the program: a missing
// program is an error of kind fault.NotFound, any other failure of enter one of
// kind fault.Lab.
func Entered(cmd conn.Cmd, exec func(conn.Cmd) (conn.Exit, error)) (conn.Exit, error) {
	head, tail := conn.Head{Limit: 512}, conn.Tail{Limit: 512}
	cmd.Stderr = conn.Both(io.MultiWriter(&head, &tail), cmd.Stderr)
	exit, err := exec(cmd)
	if err != nil || exit.Code < enterFailed || exit.Signal != "" {
		return exit, err
	}
	if exit.Code > 128 {
		if name, ok := strings.CutPrefix(lastLine(tail.Bytes()), enterMark+signalMark); ok {
			exit.Signal = name
		}
		return exit, nil
	}
	why, ok := strings.CutPrefix(firstLine(head.Bytes()), enterMark)
	if !ok {
		return exit, nil
	}
	switch exit.Code {
	case enterNotFound:
		return conn.Exit{}, fault.New(fault.NotFound, "%s", why)
	case enterFailed:
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

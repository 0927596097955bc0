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
	said := &edges{w: cmd.Stderr}
	cmd.Stderr = said
	exit, err := exec(cmd)
	if err != nil || exit.Code < enterFailed || exit.Signal != "" {
		return exit, err
	}
	if exit.Code > 128 {
		if name, ok := strings.CutPrefix(said.last(), enterMark+signalMark); ok {
			exit.Signal = name
		}
		return exit, nil
	}
	why, ok := strings.CutPrefix(said.first(), enterMark)
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

// edges passes a stream on and keeps its beginning and its end.
type edges struct {
	w    io.Writer
	head []byte
	tail conn.Tail
}

func (e *edges) Write(p []byte) (int, error) {
	if room := 512 - len(e.head); room > 0 {
		e.head = append(e.head, p[:min(room, len(p))]...)
	}
	e.tail.Limit = 512
	e.tail.Write(p)
	if e.w == nil {
		return len(p), nil
	}
	return e.w.Write(p)
}

func (e *edges) first() string {
	line, _, _ := bytes.Cut(e.head, []byte("\n"))
	return strings.TrimSpace(string(line))
}

func (e *edges) last() string {
	text := bytes.TrimRight(e.tail.Bytes(), "\n")
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

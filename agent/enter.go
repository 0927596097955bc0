package agent

import (
	"bytes"
	"io"
	"strings"

	"bakeoff/conn"
	"bakeoff/fault"
)

// The exit codes of `bakeoff-agent enter` when it could not execute the
// program, as shells and env(1) have them.
const (
	enterFailed        = 125
	enterNotExecutable = 126
	enterNotFound      = 127
)

// enterMark begins the one line that enter prints when it could not execute
// the program.
const enterMark = "bakeoff-agent enter: "

// Entered runs exec, which executes a command through `bakeoff-agent enter`,
// and tells a failure to get there from a failure of the program: a program
// that does not exist is an error of kind fault.NotFound, and any other
// failure of enter itself one of kind fault.Lab.
func Entered(cmd conn.Cmd, exec func(conn.Cmd) (conn.Exit, error)) (conn.Exit, error) {
	said := &firstLine{w: cmd.Stderr}
	cmd.Stderr = said
	exit, err := exec(cmd)
	if err != nil || exit.Code < enterFailed || exit.Code > enterNotFound || exit.Signal != "" {
		return exit, err
	}
	why, ok := strings.CutPrefix(said.String(), enterMark)
	if !ok {
		return exit, nil
	}
	why = strings.TrimSpace(why)
	switch exit.Code {
	case enterNotFound:
		return conn.Exit{}, fault.New(fault.NotFound, "%s", why)
	case enterFailed:
		return conn.Exit{}, fault.New(fault.Lab, "enter: %s", why)
	}
	return exit, nil
}

// firstLine passes a stream on and remembers how it begins.
type firstLine struct {
	w    io.Writer
	head []byte
}

func (f *firstLine) Write(p []byte) (int, error) {
	if room := 512 - len(f.head); room > 0 {
		f.head = append(f.head, p[:min(room, len(p))]...)
	}
	if f.w == nil {
		return len(p), nil
	}
	return f.w.Write(p)
}

func (f *firstLine) String() string {
	line, _, _ := bytes.Cut(f.head, []byte("\n"))
	return string(line)
}

package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// runSubject is the helper of the drivers' test suite in an environment: it
// counts CPUs, allocates memory, fills files, writes heartbeats and serves. It
// is part of the agent because the machine may have no compiler.
func runSubject(c command.Call) int {
	things := map[string]struct {
		args int
		run  func(c command.Call, args []string) error
	}{
		"cpus": {0, func(c command.Call, _ []string) error {
			_, err := fmt.Fprintln(c.Stdout, runtime.NumCPU())
			return err
		}},
		"hog":   {1, hog}, // BYTES
		"fill":  {2, func(_ command.Call, a []string) error { return fill(a[0], a[1]) }},
		"beat":  {1, func(_ command.Call, a []string) error { return beat(a[0]) }},
		"serve": {2, func(_ command.Call, a []string) error { return serveText(a[0], a[1]) }},
	}
	if len(c.Args) > 0 {
		if t, ok := things[c.Args[0]]; ok && len(c.Args) == 1+t.args {
			if err := t.run(c, c.Args[1:]); err != nil {
				return c.Fail(command.Classed(err))
			}
			return wire.ExitOK
		}
	}
	return c.Fail(command.UsageError("usage: subject cpus, hog BYTES, fill FILE BYTES, beat FILE or serve ADDRESS TEXT"))
}

// hog allocates memory and touches every page of it.
func hog(c command.Call, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var held [][]byte
	for ; n > 0; n -= 1 << 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	_, err = fmt.Fprintln(c.Stdout, "held", len(held), "MiB")
	return err
}

// beat appends a byte to a file every 5 ms, until it is killed.
func beat(file string) error {
	for {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		f.Write([]byte("x"))
		f.Close()
		time.Sleep(5 * time.Millisecond)
	}
}

// serveText sends text to every client, until it is killed.
func serveText(address, text string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		io.WriteString(c, text)
		c.Close()
	}
}

// fill writes size zero bytes to a file and syncs it.
func fill(name, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(make([]byte, n)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// execTerminal runs a program in a guest in a terminal that follows the one of this command.
func (a *app) execTerminal(ctx context.Context, c *cobra.Command, g *vm.Guest, argv []string) (exit conn.Exit,
	err error) {
	in, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return exit, cli.Usage(c, errors.New("-t needs a terminal as standard input; leave it out"))
	}
	keys, typed, err := os.Pipe() // a file, for which a program that has ended need not wait
	if err != nil {
		return exit, fault.Op("terminal", err)
	}
	defer keys.Close()
	defer typed.Close()
	var one sync.Mutex // a message at a time
	size := func() error {
		columns, rows, err := term.GetSize(int(in.Fd()))
		if err != nil {
			return err
		}
		one.Lock()
		defer one.Unlock()
		return wire.WriteSize(typed, wire.Size{Rows: uint16(rows), Columns: uint16(columns)})
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	old, err := term.MakeRaw(int(in.Fd()))
	if err == nil {
		defer term.Restore(int(in.Fd()), old)
		err = size()
	}
	if err != nil {
		return exit, fault.Op("terminal", err)
	}
	go func() {
		for range changed {
			_ = size() // the next change tries again
		}
	}()
	go typeInto(typed, &one, in)
	var env []string
	if t := os.Getenv("TERM"); t != "" {
		env = append(env, "TERM="+t)
	}
	return g.Terminal(ctx, argv, env, keys, a.Out)
}

// typeInto writes what is typed, until its reader is gone.
func typeInto(to *os.File, one *sync.Mutex, in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		one.Lock()
		werr := wire.WriteKeys(to, buf[:n])
		one.Unlock()
		if err != nil || werr != nil {
			return
		}
	}
}

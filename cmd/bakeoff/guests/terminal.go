package guests

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
func (a *commands) execTerminal(ctx context.Context, c *cobra.Command, g *vm.Guest, argv []string) (exit conn.Exit,
	err error) {
	in, ok := terminalOf(a.In)
	if !ok {
		return exit, cli.Usage(c, errors.New("-t needs a terminal as standard input; leave it out"))
	}
	keys, typed, err := os.Pipe() // a file, for which a program that has ended need not wait
	if err != nil {
		return exit, fault.Op("terminal", err)
	}
	defer keys.Close()
	defer typed.Close()
	var one sync.Mutex // a message at a time
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return exit, fault.Op("terminal", err)
	}
	defer term.Restore(int(in.Fd()), old)
	stop, err := followSize(in, func(s wire.Size) error {
		one.Lock()
		defer one.Unlock()
		return wire.WriteSize(typed, s)
	})
	if err != nil {
		return exit, fault.Op("terminal", err)
	}
	defer stop()
	go typeInto(typed, &one, in)
	var env []string
	if t := os.Getenv("TERM"); t != "" {
		env = append(env, "TERM="+t)
	}
	return g.Terminal(ctx, argv, env, keys, a.Out)
}

// terminalOf is the terminal that an input is.
func terminalOf(in io.Reader) (f *os.File, ok bool) {
	f, ok = in.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// followSize calls set with the size of a terminal, now and whenever it changes, until stop is called.
// The error is that of the first call.
func followSize(of *os.File, set func(wire.Size) error) (stop func(), err error) {
	size := func() error {
		columns, rows, err := term.GetSize(int(of.Fd()))
		if err != nil {
			return err
		}
		return set(wire.Size{Rows: uint16(rows), Columns: uint16(columns)})
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	err = size()
	go func() {
		for range changed {
			_ = size() // the next change tries again
		}
	}()
	return func() { signal.Stop(changed) }, err
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

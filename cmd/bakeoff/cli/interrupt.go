package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon after the first signal a second one counts as the same.
const sameSignal = 300 * time.Millisecond

// Interruptible returns a context that the first Ctrl-C or SIGTERM ends; the
// second one kills this program where it stands. It ends as well when the
// terminal goes away, or what reads the output: left to themselves these would
// kill this program, and leave its environments behind.
func (s *Streams) Interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	stopHearing := s.hearBroken(func() { cancel(interruption{syscall.SIGPIPE}) })
	go func() {
		first, ok := <-signals
		if !ok {
			return
		}
		signal := first.(syscall.Signal) // as all are on these systems
		cancel(interruption{signal})
		// One Ctrl-C can come twice: from the terminal, and passed on by what
		// started this program (sudo, timeout). A person's second one is later.
		since := time.Now()
		for range signals {
			if time.Since(since) < sameSignal {
				continue
			}
			if s.Terminal(s.Err) {
				io.WriteString(s.Err, "\x1b[?25h") // the live view hides the cursor
			}
			io.WriteString(s.Err, "\nbakeoff: killed; run bakeoff clean to remove what is left\n")
			os.Exit(ExitSignal + int(signal))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		stopHearing()
		cancel(nil)
	}
}

// hearBroken calls broken when nobody reads standard output or standard error
// any longer, until the function that it returns is called.
func (s *Streams) hearBroken(broken func()) func() {
	// Unless a program asks for the signal, a write to a closed pipe on standard
	// output kills it. The signal also comes for broken connections, so the error
	// of the write decides.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	hear := func(heard func(error)) {
		for _, w := range []io.Writer{s.Out, s.Err} {
			if o, ok := w.(*output); ok {
				o.notifyErrors(heard)
			}
		}
	}
	hear(func(err error) {
		if errors.Is(err, syscall.EPIPE) {
			broken()
		}
	})
	return func() {
		hear(nil)
		signal.Stop(signals)
	}
}

// Package start starts the programs of the benchmarks.
package start

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main calls run, whose context ends at the first interrupt. An error ends this process: Main
// prints it after name, and the exit code is 1.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

//go:build linux

// Command cluster starts a whole Slurm with four nodes on this machine, for trying
// "bakeoff run --on slurm", until Ctrl-C. Its argument is the program bakeoff.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/lab/queue/slurmtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	if len(os.Args) != 2 {
		return fault.New(fault.Invalid, "usage: cluster BAKEOFF")
	}
	bakeoff, err := filepath.Abs(os.Args[1])
	if err == nil {
		_, err = os.Stat(bakeoff)
	}
	if err != nil {
		return err
	}
	if name := slurmtest.Missing(); name != "" {
		return fault.WithFix(fault.New(fault.Unsupported, "%s is not installed", name), slurmtest.Packages)
	}
	dir, err := os.MkdirTemp("", "bakeoff-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := slurmtest.Start(ctx, dir, bakeoff)
	if err != nil {
		return err
	}
	fmt.Println("A Slurm with the nodes bk1, bk2, bk3 and px1 runs on this machine. In another shell:")
	fmt.Println()
	for _, v := range s.Env() {
		fmt.Println("  export", v)
	}
	fmt.Printf("  %s hosts list\n  %s run LAB --on slurm --pool lab\n  %s queue list\n\n", bakeoff, bakeoff, bakeoff)
	fmt.Println("The logs are in", filepath.Join(dir, "log")+". Ctrl-C ends everything.")
	<-ctx.Done()
	fmt.Println("ending")
	return s.Stop()
}

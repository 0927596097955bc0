package guests

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/cmd/bakeoff/cli"
)

var errTerminalOutput = errors.New("standard output is a terminal: write to a file or a pipe")

func (a *commands) vmSend() *cobra.Command {
	return &cobra.Command{
		Use:   "send GUEST",
		Short: "Write a guest to standard output, for bakeoff vm receive on another host",
		Long: `send shuts a guest down and writes its disks, its kernel or image, its manifest and its
metadata. It leaves out snapshots. The guest stays on this host, stopped and without
autoboot. When the other host has received the guest, delete it on this host. If a disk of
the guest is based on an image, send first makes the disk independent of the image.`,
		Example: "  sudo bakeoff vm send web >web.guest\n" +
			"  sudo bakeoff vm send web | ssh host sudo bakeoff vm receive",
		Args: cli.Between(1, 1, "GUEST"),
		RunE: func(c *cobra.Command, args []string) error {
			if a.Terminal(a.Out) {
				return cli.Usage(c, errTerminalOutput)
			}
			g, err := a.guest(args[0])
			if err != nil {
				return err
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			if err := g.Send(ctx, a.Out); err != nil {
				fmt.Fprintf(a.Err, "the guest is stopped; `bakeoff vm start %s` starts it again\n", g.UUID)
				return err
			}
			fmt.Fprintf(a.Err, "Successfully sent VM %s\n", g.UUID)
			return nil
		},
	}
}

func (a *commands) vmReceive() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "receive",
		Short: "Create a guest from the output of send, and start it if it has autoboot",
		Long: `receive reads a guest from standard input. It verifies the SHA-256 of each part, and refuses
a stream that was cut or changed. The guest keeps its UUID, its name and its addresses. Only
receive guests from people that you trust: a manifest can give the guest access to any folder
of this machine.`,
		Example: "  sudo bakeoff vm receive <web.guest\n  ssh host sudo bakeoff vm send web | sudo bakeoff vm receive",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if f, ok := a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				return cli.Usage(c, errors.New("standard input is a terminal: read from a file or a pipe"))
			}
			s, err := a.guests()
			if err != nil {
				return err
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			g, err := s.Receive(ctx, a.In)
			if err != nil {
				return a.problemsFirst(err, asJSON)
			}
			if g.Autoboot {
				if err := g.Start(ctx, a.launch); err != nil {
					fmt.Fprintf(a.Err, "guest %s is kept; see `bakeoff vm logs %s`\n", g.UUID, g.UUID)
					return err
				}
			}
			fmt.Fprintf(a.Err, "Successfully received VM %s\n", g.UUID)
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": vmGuestSchema, "guest": g})
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the guest as one JSON object")
	return c
}

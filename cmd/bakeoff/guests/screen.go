package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/atomicfile"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
)

// pictures are the formats of a picture of a screen.
var pictures = []string{"png", "ppm"}

// printPicture prints where the picture of a screen is.
func (a *commands) printPicture(g *vm.Guest, file, format string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return a.PrintJSON(map[string]string{"schema": vmScreenSchema, "uuid": g.UUID, "file": file, "format": format})
}

func (a *commands) vmScreenshot() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "screenshot GUEST FILE.png|FILE.ppm",
		Short: "Write a picture of a machine's screen to a file",
		Long: `screenshot writes a picture of a machine's screen to a file. A machine has a screen if it
starts a boot loader or an installer, or if its manifest has vnc_port or vnc_password.`,
		Example: "  sudo bakeoff vm screenshot installer screen.png",
		Args:    cli.Between(2, 2, "GUEST FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			format := strings.TrimPrefix(filepath.Ext(args[1]), ".")
			if format != pictures[0] && format != pictures[1] {
				return cli.Usage(c, fmt.Errorf("the name of the picture must end in .png or .ppm (got %q)", args[1]))
			}
			g, err := a.guest(args[0])
			if err != nil {
				return err
			}
			file, err := g.Screenshot(c.Context(), format)
			if err != nil {
				return err
			}
			defer os.Remove(file)
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := atomicfile.Write(args[1], b, 0o644); err != nil || !asJSON {
				return err
			}
			return a.printPicture(g, args[1], format)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the path of the picture in one JSON object")
	return c
}

func (a *commands) vmSysrq() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "sysrq GUEST nmi|screenshot",
		Short: "Send an interrupt to a machine, or write a picture of its screen",
		Long: `sysrq nmi sends a non-maskable interrupt: most systems then print a stack trace, or panic.
sysrq screenshot writes the picture screen.ppm into the folder of the guest, and prints its
path.`,
		Example: "  sudo bakeoff vm sysrq web nmi",
		Args:    cli.Between(2, 2, "GUEST nmi|screenshot"),
		RunE: func(c *cobra.Command, args []string) error {
			do := map[string]func(context.Context, *vm.Guest) error{
				"nmi": func(ctx context.Context, g *vm.Guest) error {
					if err := g.Interrupt(ctx); err != nil || !asJSON {
						return err
					}
					return a.PrintJSON(map[string]any{"schema": vmGuestSchema, "guest": g})
				},
				"screenshot": func(ctx context.Context, g *vm.Guest) error {
					file, err := g.Screenshot(ctx, pictures[1])
					if err == nil && asJSON {
						return a.printPicture(g, file, pictures[1])
					}
					if err == nil {
						fmt.Fprintln(a.Out, file)
					}
					return err
				}}[args[1]]
			if do == nil {
				return cli.Usage(c, errors.New("write nmi or screenshot"))
			}
			g, err := a.guest(args[0])
			if err != nil {
				return err
			}
			return do(c.Context(), g)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: the guest, or the path of the picture")
	return c
}

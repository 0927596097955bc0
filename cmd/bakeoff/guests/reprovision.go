package guests

import (
	"fmt"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/measure/webroot"
	"bakeoff/provision/service/build"
)

func (a *commands) vmReprovision() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "reprovision GUEST [-f FILE]",
		Short: "Give a guest another image, and keep its manifest, metadata and other disks",
		Long: `reprovision replaces the first disk of a machine, or the root of a container. Everything that
the guest wrote there is lost. reprovision reads JSON with image_uuid or image from a file or
from standard input. It removes the snapshots of the guest, kills the guest, and starts it
from the new image.`,
		Example: `  echo '{"image": "alpine:3.21"}' | sudo bakeoff vm reprovision box`,
		Args:    cli.Between(1, 1, "GUEST"),
		RunE: func(c *cobra.Command, args []string) error {
			name, text, err := a.payload(c, file)
			if err != nil {
				return err
			}
			g, err := a.guest(args[0])
			if err != nil {
				return err
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			agent, err := a.at.Agent()
			if err != nil {
				return err
			}
			o := build.Options{Agent: agent, Materials: webroot.Materials(), Say: a.NoteProgress}
			if err := g.Reprovision(ctx, a.at.Images(a.NoteProgress), text, folderOf(name), o, a.launch); err != nil {
				return a.problemsFirst(err, false)
			}
			fmt.Fprintf(a.Err, "Successfully reprovisioned VM %s\n", g.UUID)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "read this `file`; without it, standard input")
	return c
}

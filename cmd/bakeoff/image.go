package main

import (
	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
)

func (a *app) image() *cobra.Command {
	c := &cobra.Command{
		Use:     "image",
		Short:   "Show what kernels, disks and RAM disks are",
		Long:    `image reads the files that machines are started from.`,
		Example: `  bakeoff image inspect /boot/vmlinuz-6.1.0-56-cloud-amd64`,
	}
	cli.Group(c, "command", "inspect")
	c.AddCommand(a.imageInspect())
	return c
}

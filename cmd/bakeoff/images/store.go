package images

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image"
)

func (a *commands) imageExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export IMAGE FILE",
		Short: "Write an image to a tar file",
		Long: `export writes an image as a tar file with an OCI image layout. podman and skopeo read this
file; a lab file names it with image: oci-archive:FILE. Equal images give equal files. FILE
must not exist; - is standard output.`,
		Example: "  bakeoff image export alpine:3.20 alpine.tar",
		Args:    cli.Between(2, 2, "IMAGE and FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			_, h, err := a.heldImage(args[0])
			if err != nil {
				return err
			}
			to := func(w io.Writer) error { return a.imageStore().Export(c.Context(), h, w) }
			if args[1] == "-" {
				if a.Terminal(a.Out) {
					return fault.WithFix(fault.New(fault.Invalid, "standard output is a terminal"), "write to a file or a pipe")
				}
				return to(a.Out)
			}
			if err := cli.CreateFile(args[1], to); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "exported %s to %s\n", h.Ref, args[1])
			return nil
		},
	}
}

// removal are the flags of the commands that remove what the cache has.
type removal struct{ asJSON, dryRun, yes bool }

// addFlags declares the flags; dryRun and yes are their short names, or empty.
func (r *removal) addFlags(c *cobra.Command, dryRun, yes string) {
	c.Flags().BoolVarP(&r.dryRun, "dry-run", dryRun, false, "list what would be removed, and remove nothing")
	c.Flags().BoolVarP(&r.yes, "yes", yes, false, "remove without asking")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print one JSON object; requires --yes or --dry-run")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if r.asJSON && !r.yes && !r.dryRun {
			return cli.Usage(c, fault.New(fault.Invalid, "with --json, bakeoff cannot ask for confirmation: add "+
				"--yes or --dry-run"))
		}
		return nil
	}
}

// removeEntries shows entries, asks, and removes them. It completes out, which has the
// schema of the result as JSON.
func (a *commands) removeEntries(c *cobra.Command, r removal, drop []image.Entry, out map[string]any) error {
	if !r.asJSON && len(drop) == 0 {
		fmt.Fprintln(a.Out, "nothing to remove")
		return nil
	}
	if !r.asJSON {
		a.printEntries(drop)
	}
	remove := !r.dryRun && len(drop) > 0
	if remove && !r.yes {
		if err := a.Confirm(fmt.Sprintf("Remove these %d, %s?", len(drop), totalSize(drop...))); err != nil {
			return err
		}
	}
	if remove {
		if err := a.at.RemoveCached(c.Context(), drop); err != nil {
			return err
		}
	}
	if r.asJSON {
		out["dry_run"], out["removed"], out["entries"] = r.dryRun, remove, append([]image.Entry{}, drop...)
		return a.PrintJSON(out)
	}
	word := "removed"
	if r.dryRun {
		word = "would remove"
	}
	fmt.Fprintf(a.Out, "%s %s\n", word, totalSize(drop...))
	return nil
}

func (a *commands) removeImages(c *cobra.Command, r removal, drop []image.Entry) error {
	return a.removeEntries(c, r, drop, map[string]any{"schema": removedSchema})
}

func (a *commands) imageDelete() *cobra.Command {
	var r removal
	c := &cobra.Command{
		Use:   "delete IMAGE...",
		Short: "Remove images from the store",
		Long: `delete removes images, the files that were unpacked from them, and the layers that no other
image uses. If another image has a deleted image as its origin, the shared layers stay.
delete first lists what it would remove, and then asks for confirmation. --yes removes
without asking.`,
		Example: "  bakeoff image delete --dry-run alpine:3.20\n  sudo bakeoff image delete --yes store:app:1",
		Args:    cli.Between(1, 1000, "IMAGE"),
		RunE: func(c *cobra.Command, args []string) error {
			var drop []image.Entry
			for _, name := range args {
				_, h, err := a.heldImage(name)
				if err != nil {
					return err
				}
				entries, err := a.imageStore().EntriesOf(h)
				if err != nil {
					return err
				}
				drop = append(drop, entries...)
			}
			return a.removeImages(c, r, lists.AddNew(nil, drop...))
		},
	}
	r.addFlags(c, "n", "f")
	return c
}

func (a *commands) imageVacuum() *cobra.Command {
	var r removal
	var days int
	c := &cobra.Command{
		Use:   "vacuum",
		Short: "Remove what no image needs, and images that no run uses",
		Long: `vacuum removes interrupted downloads, layers that no image has, and unpacked images whose
tag now names another image. With --unused N, it also removes the images that were neither
stored nor used by a run in the last N days. It first lists what it would remove, and then
asks for confirmation. --yes removes without asking.`,
		Example: "  bakeoff image vacuum --dry-run --unused 30\n  sudo bakeoff image vacuum --yes",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("unused") && days < 0 {
				return cli.Usage(c, fault.New(fault.Invalid, "--unused must be at least 0 days (got %d)", days))
			}
			store := a.imageStore()
			all, err := store.Entries()
			if err != nil {
				return err
			}
			now := time.Now()
			drop := slices.DeleteFunc(all, func(e image.Entry) bool {
				return e.State != image.Partial && e.State != image.Superseded
			})
			if !c.Flags().Changed("unused") {
				return a.removeImages(c, r, drop)
			}
			held, err := store.Stored()
			if err != nil {
				return err
			}
			for _, h := range held {
				used, err := time.Parse(time.RFC3339, h.Used)
				if err == nil && now.Sub(used) < time.Duration(days)*24*time.Hour {
					continue
				}
				entries, err := store.EntriesOf(h)
				if err != nil {
					return err
				}
				drop = append(drop, entries...)
			}
			return a.removeImages(c, r, lists.AddNew(nil, drop...))
		},
	}
	r.addFlags(c, "n", "f")
	c.Flags().IntVar(&days, "unused", 0, "also remove images that were not used for this number of days")
	return c
}

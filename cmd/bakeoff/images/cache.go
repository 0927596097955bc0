package images

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/provision/image"
)

// cacheSchema is the schema of what the cache commands print with --json.
const cacheSchema = "bakeoff/cache/v1"

// CacheCommand returns bakeoff cache, and the commands below it.
func CacheCommand(s *cli.Streams, at hosts.Controller) *cobra.Command {
	a := &commands{s, at}
	c := &cobra.Command{
		Use:   "cache",
		Short: "List and remove images, kernels and programs in the cache",
		Long: `cache lists and removes what bakeoff keeps to save time: images, kernels and programs that
it built, and image layers that it downloaded. The next run builds or downloads again what
it needs.`,
		Example: `  bakeoff cache list
  bakeoff cache prune --dry-run
  sudo bakeoff cache clear --yes`,
	}
	cli.Group(c, "command", "list, prune or clear")
	c.AddCommand(a.cacheList(),
		a.cacheRemove("prune", "Remove what no run can use",
			`prune removes partial builds and downloads that a killed run left behind. It also removes
images that this version of bakeoff no longer uses, images whose tag now names another
image, and layers that no image has. It does not remove what a build in progress writes.

prune also removes packed files and the images that contain them, if no run used them in the
last seven days. Packed files are copies of the files that lab files place in environments.
With --all, it removes all packed files and all images that contain them. A new run packs
the files again in seconds, but an interrupted run with such files cannot be resumed
afterwards.`,
			func(e image.Entry, all bool) bool { return e.Prunable(time.Now(), all) }),
		a.cacheRemove("clear", "Remove everything in the cache",
			`clear removes every image, kernel and program in the cache. This includes images that
"bakeoff image create" stored; no run can make these images again. clear refuses to start
while a run measures on this machine or a build is in progress.`,
			func(image.Entry, bool) bool { return true }))
	return c
}

func (a *commands) cacheList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the cache with sizes and times of last use",
		Long: `list shows every image, kernel and program in the cache, its size on disk and when it was
last used. In the column KIND, "files" means packed files (copies of the files that lab
files place in environments), and "derived" means images that contain packed files. The size
of a derived image is the space that it takes in addition to the image and the files that it
was made from. "service" means products of "bakeoff image build", and "system" means the
rescue system of "bakeoff install".

  complete    ready for use
  partial     a killed build or download left it; prune removes it
  superseded  no run uses it any more: this version of bakeoff builds the image in
              another way, its tag has moved, or no image has the layer; prune removes it
  in use      a build in progress writes it`,
		Example: "  bakeoff cache list\n  bakeoff cache list --json | jq '[.entries[].size_bytes] | add'",
		Args:    cli.Between(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			all, err := a.at.Cache()
			if err != nil {
				return err
			}
			_, dir := a.at.Dirs()
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": cacheSchema, "dir": dir, "entries": append([]image.Entry{}, all...)})
			}
			if len(all) == 0 {
				fmt.Fprintf(a.Out, "the cache %s is empty\n", dir)
				return nil
			}
			a.printEntries(all)
			fmt.Fprintf(a.Out, "%s in %s\n", totalSize(all...), dir)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// cacheRemove is a command that removes the entries for which drop holds.
func (a *commands) cacheRemove(use, short, long string, drop func(e image.Entry, all bool) bool) *cobra.Command {
	var r removal
	var everything bool
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Long: long + `

It first lists what it would remove, and then asks for confirmation. --yes removes without
asking.`,
		Example: "  bakeoff cache " + use + " --dry-run    list, and remove nothing\n  sudo bakeoff cache " + use + " --yes",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := a.at.Cache()
			if err != nil {
				return err
			}
			drop := slices.DeleteFunc(all, func(e image.Entry) bool { return !drop(e, everything) })
			_, dir := a.at.Dirs()
			return a.removeEntries(c, r, drop, map[string]any{"schema": cacheSchema, "dir": dir})
		},
	}
	r.addFlags(c, "", "")
	if use == "prune" {
		c.Flags().BoolVar(&everything, "all", false,
			"remove all packed files of lab files, even if a run used them in the last seven days")
	}
	return c
}

func (a *commands) printEntries(entries []image.Entry) {
	t := cli.NewTable("KIND", "NAME", "SIZE", "LAST USED", "STATE")
	for _, e := range entries {
		used, _, _ := strings.Cut(cmp.Or(e.Used, "unknown"), "T")
		name := e.Name
		if e.Kind == image.KindFiles && e.Ref != "" { // its own name is a whole digest
			name = e.Ref
		}
		t.Row(e.Kind, name, totalSize(e), used, strings.ReplaceAll(string(e.State), "_", " "))
	}
	a.Print(t)
}

// totalSize is the size of entries together, in MiB.
func totalSize(entries ...image.Entry) string {
	n := lists.Sum(entries, func(e image.Entry) int64 { return e.Size })
	return cli.Mebibytes(n)
}

package archive

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/provision/image/registry"
)

// pruneSchema is the schema of what prune prints with --json.
const pruneSchema = "bakeoff/store-prune/v1"

func (k *keeper) client() (*registry.Client, error) { return Client(k.Streams, k.getenv) }

// Client reaches registries with the credentials of docker and podman.
func Client(s *cli.Streams, getenv func(string) string) (*registry.Client, error) {
	settings, err := registry.SettingsOf(getenv)
	return &registry.Client{Settings: settings, Arch: runtime.GOARCH,
		Say: func(text string) { fmt.Fprintln(s.Err, safetext.Line(text)) }}, err
}

func (k *keeper) push() *cobra.Command {
	var to string
	var all bool
	c := &cobra.Command{
		Use:   "push [RUN...]",
		Short: "Send bundles to a registry",
		Long: `push sends bundles to a repository of a registry, with the credentials of docker and podman.
If the store has a key, push signs the bundles first. push sends only what the registry
lacks. To continue an interrupted push, run it again.

The tag of a bundle consists of the name of its run and its digest. push also sends the
signatures and the results of bakeoff replicate; the registry stores them as OCI referrers
of the bundle.`,
		Example: `  bakeoff store push 20260102T030405Z-quick --to registry.example/team/runs
  bakeoff store push --all`,
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return cli.Usage(c, fmt.Errorf("name runs, or write --all"))
			}
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				digests, err := k.digestsOf(ctx, s, args)
				if err != nil {
					return err
				}
				client, err := k.client()
				if err != nil {
					return err
				}
				for _, d := range digests {
					ref, err := s.Push(ctx, client, d, to)
					if ctx.Err() != nil {
						return cli.Interrupted(ctx, "run the command again to continue")
					}
					if err != nil {
						return err
					}
					fmt.Fprintln(k.Out, "pushed "+ref)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&to, "to", "", "push to this `repository` HOST/NAME (default: the registry of the store)")
	c.Flags().BoolVar(&all, "all", false, "push every bundle of the store")
	return c
}

func (k *keeper) pull() *cobra.Command {
	var from string
	var all bool
	c := &cobra.Command{
		Use:   "pull [REFERENCE...]",
		Short: "Download bundles from a registry, check them, and add them to the store",
		Long: `pull downloads the named bundles, HOST/NAME:TAG or HOST/NAME@sha256:…, and adds them to the
store. With --all, pull downloads from a repository every bundle that the store lacks. pull
continues an interrupted download.

A bundle comes from a stranger: pull checks everything that bakeoff store verify checks,
before it adds the bundle. If the store requires signatures, a trusted key must have signed
the bundle. If a bundle fails a check, pull leaves it out, adds the others, and exits with
1.`,
		Example: `  bakeoff store pull registry.example/team/runs:20260102T030405Z-quick-1a2b3c4d5e6f
  bakeoff store pull --all --from registry.example/team/runs`,
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return cli.Usage(c, fmt.Errorf("name bundles, or write --all"))
			}
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				client, err := k.client()
				if err == nil && all {
					args, err = s.Remote(ctx, client, from)
				}
				if err != nil {
					return err
				}
				refused := 0
				for _, ref := range args {
					digest, isNew, err := s.Pull(ctx, client, ref)
					switch {
					case ctx.Err() != nil:
						return cli.Interrupted(ctx, "run the command again to continue")
					case fault.Is(err, fault.Invalid) && len(args) > 1:
						fmt.Fprintln(k.Err, "bakeoff: refused: "+safetext.Line(err.Error()))
						refused++
					case err != nil:
						return err
					case isNew:
						fmt.Fprintf(k.Out, "added %s as %s\n", safetext.Line(ref), digest)
					default:
						fmt.Fprintf(k.Out, "%s is in the store as %s\n", safetext.Line(ref), digest)
					}
				}
				if refused > 0 {
					return cli.Exit{Code: cli.ExitFailed, Text: unit.Count(refused, "bundle") + " refused"}
				}
				if len(args) == 0 {
					fmt.Fprintln(k.Out, "the store has all bundles")
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&from, "from", "",
		"with --all: pull from this `repository` HOST/NAME (default: the registry of the store)")
	c.Flags().BoolVar(&all, "all", false, "pull every bundle that the store lacks")
	return c
}

func (k *keeper) prune() *cobra.Command {
	var f index.Filter
	var keep int
	var dryRun, yes, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove leftovers, and old runs if asked",
		Long: `prune removes what no bundle needs: unfinished downloads, leftovers of killed processes, and
parts of refused bundles. With --keep it also removes the older runs of each lab and
machine, from the store and from its index. It first lists what it would remove, and then
asks for confirmation. --yes removes without asking. Registries and run folders stay as they
are.`,
		Example: `  bakeoff store prune --dry-run
  bakeoff store prune --keep 100 --lab nightly --yes`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case c.Flags().Changed("keep") && keep < 0:
				return cli.Usage(c, fmt.Errorf("--keep must be 0 or more (got %d)", keep))
			case asJSON && !yes && !dryRun:
				return cli.Usage(c, fmt.Errorf("with --json, bakeoff cannot ask for confirmation: add --yes or --dry-run"))
			}
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				old := []index.Run{}
				if c.Flags().Changed("keep") {
					var err error
					if old, err = s.Older(ctx, f, keep); err != nil {
						return err
					}
				}
				files, bytes, err := s.Leftovers()
				if err != nil {
					return err
				}
				for _, r := range old {
					bytes += r.Bytes
					if !asJSON {
						fmt.Fprintf(k.Out, "%s %s\n", bundle.Short(r.Bundle), r.Name)
					}
				}
				nothing := len(old)+len(files) == 0
				if !asJSON {
					fmt.Fprintf(k.Out, "%s and %s, %s\n", unit.Count(len(old), "run"), unit.Count(len(files), "leftover file"),
						mebibytes(bytes))
				}
				remove := !dryRun && !nothing
				if remove && !yes {
					if err := k.Confirm("Remove these?"); err != nil {
						return err
					}
				}
				if remove {
					for _, r := range old {
						if err := s.Remove(ctx, r.Bundle); err != nil {
							return err
						}
					}
					if _, err := s.Sweep(ctx); err != nil {
						return err
					}
				}
				if asJSON {
					return k.PrintJSON(map[string]any{"schema": pruneSchema, "dry_run": dryRun, "removed": remove, "runs": old,
						"files": len(files), "bytes": bytes})
				}
				return nil
			})
		},
	}
	fl := c.Flags()
	fl.IntVar(&keep, "keep", 0, "keep this `number` of the newest runs of each lab and machine, and remove the others")
	fl.StringVar(&f.Lab, "lab", "", "with --keep: remove only runs of the lab of this `name`")
	fl.StringVar(&f.Host, "host", "", "with --keep: remove only runs on the machine of this `name`")
	fl.BoolVarP(&dryRun, "dry-run", "n", false, "list what would be removed, and remove nothing")
	fl.BoolVarP(&yes, "yes", "f", false, "remove without asking")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object; requires --yes or --dry-run")
	return c
}

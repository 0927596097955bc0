package archive

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
)

func (k *keeper) verify() *cobra.Command {
	var asJSON, full bool
	c := &cobra.Command{
		Use:   "verify [RUN...]",
		Short: "Check bundles: digests, folders, samples, index",
		Long: `verify checks the named bundles, or all bundles of the store. Every digest must be right,
and verify must be able to unpack the run folder. The raw files of the run folder must have
the hashes in its journal. The samples and the record must agree with the results, and the
index must contain the run. verify prints a note if the run folder lacks raw files. With --full
it also computes every number again from the raw output, as bakeoff verify does: only --full
finds results that were edited before bakeoff store add --damaged added the run.

The exit code is 1 if a check fails.`,
		Example: `  bakeoff store verify
  bakeoff store verify --full 1a2b3c4d5e6f
  bakeoff store verify --json | jq '.bundles[] | select(.problem)'`,
		RunE: func(c *cobra.Command, args []string) error {
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				return k.doVerify(ctx, s, args, full, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&full, "full", false, "also compute every number again")
	return c
}

func (k *keeper) doVerify(ctx context.Context, s *archive.Store, args []string, full, asJSON bool) error {
	digests, err := k.digestsOf(ctx, s, args)
	if err != nil {
		return err
	}
	var inside func(string) error
	if full {
		inside = Recompute
	}
	all, bad := []archive.Found{}, 0
	for _, d := range digests {
		f, err := s.Verify(ctx, d, inside)
		if err != nil {
			return err
		}
		all = append(all, f)
		if f.Problem != "" {
			bad++
		}
		if asJSON {
			continue
		}
		name := bundle.Short(d) + " " + safetext.Line(f.Run)
		for _, n := range f.Notes {
			fmt.Fprintln(k.Out, "note: "+name+": "+safetext.Line(n))
		}
		if f.Problem != "" {
			fmt.Fprintln(k.Out, k.Style(k.Out).Paint(cli.Red, "does not hold:")+" "+name+": "+safetext.Line(f.Problem))
		} else if len(args) > 0 {
			if len(f.SignedBy) > 0 {
				name += ", signed by " + strings.Join(f.SignedBy, ", ")
			}
			fmt.Fprintln(k.Out, k.Style(k.Out).Paint(cli.Green, "holds:")+" "+name)
		}
	}
	if asJSON {
		if err := k.PrintJSON(map[string]any{"schema": verifySchema, "bundles": all}); err != nil {
			return err
		}
	} else if len(args) == 0 {
		fmt.Fprintf(k.Out, "%s, %d of them with a problem\n", unit.Count(len(all), "bundle"), bad)
	}
	if bad > 0 {
		return cli.Exit{Code: cli.ExitFailed}
	}
	return nil
}

// digestsOf are the digests of the bundles that args name, or of all.
func (k *keeper) digestsOf(ctx context.Context, s *archive.Store, args []string) (digests []string, err error) {
	if len(args) == 0 {
		return s.Bundles()
	}
	for _, a := range args {
		d, err := s.Resolve(ctx, a)
		if err != nil {
			return nil, err
		}
		digests = append(digests, d)
	}
	return digests, nil
}

// Recompute computes every number of an unpacked run again.
func Recompute(dir string) error {
	_, err := recompute(dir, "unpack the run with bakeoff store show --unpack, then run bakeoff verify")
	return err
}

// recompute is Recompute with what to do if numbers do not hold. damage is the part of the error
// that remains for every version of bakeoff.
func recompute(dir, fix string) (damage string, err error) {
	r, err := verified(dir)
	if fault.Is(err, fault.Unsupported) {
		return "", err
	}
	if err != nil {
		return err.Error(), err
	}
	if r.OK() {
		return "", nil
	}
	return summary(r.Damage()), fault.WithFix(fault.New(fault.Invalid, "%s", summary(r.Findings)), fix)
}

// summary counts findings, and quotes the first; "" if there are none.
func summary(all []evidence.Finding) string {
	if len(all) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(all[0].String(), "\n") // the numbers follow
	return fmt.Sprintf("%s, the first: %s", unit.Count(len(all), "finding"), first)
}

// verified checks an unpacked run.
func verified(dir string) (r evidence.Report, err error) {
	run, err := store.Open(dir)
	if err != nil {
		return r, err
	}
	defer run.Close()
	cat, err := manifest.Written(workloadall.Parsers())
	if err != nil {
		return r, err
	}
	return evidence.Verify(run, workloadall.Parsers(), &cat)
}

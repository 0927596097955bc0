package guests

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
)

// snapshotVerb is a command for a snapshot of a guest. done is what it has done, for a message.
func (a *commands) snapshotVerb(use, short, long, example, done string,
	do func(ctx context.Context, g *vm.Guest, name string) error) *cobra.Command {
	return &cobra.Command{Use: use + " GUEST NAME", Short: short, Long: long, Example: example,
		Args: cli.Between(2, 2, "GUEST NAME"),
		RunE: a.onGuest(func(ctx context.Context, _ *cobra.Command, g *vm.Guest, args []string) error {
			err := do(ctx, g, args[0])
			if err == nil {
				fmt.Fprintf(a.Err, "Successfully %s snapshot %q of VM %s\n", done, args[0], g.UUID)
			}
			return err
		})}
}

func (a *commands) vmCreateSnapshot() *cobra.Command {
	return a.snapshotVerb("create-snapshot", "Save the state of a guest: disks, manifest, metadata and memory",
		`create-snapshot saves the disks of a machine, or the written files of a container, together
with the manifest and the metadata of the guest. The snapshot of a running machine includes
its memory; the machine is paused while the memory is written. A container is paused while
its files are copied. NAME has 1 to 64 of the characters A-Z a-z 0-9 - _ . : %. "bakeoff vm
get" lists the snapshots, and "bakeoff vm list -o alias,snapshots" shows their names.`,
		"  sudo bakeoff vm create-snapshot web before-upgrade\n  bakeoff vm get web | jq .snapshots", "created",
		func(ctx context.Context, g *vm.Guest, name string) error { return g.CreateSnapshot(ctx, name) })
}

func (a *commands) vmRollbackSnapshot() *cobra.Command {
	return a.snapshotVerb("rollback-snapshot", "Restore a guest from a snapshot",
		`rollback-snapshot kills the guest and restores its disks, manifest and metadata from the
snapshot, all of them or none. Changes since the snapshot are lost. If the guest ran at the
time of the snapshot, it runs afterwards: a machine continues with its memory, and a container
starts its program again. Unlike in SmartOS, newer snapshots stay.`,
		"  sudo bakeoff vm rollback-snapshot web before-upgrade", "rolled back to",
		func(ctx context.Context, g *vm.Guest, name string) error {
			return g.Rollback(ctx, name, a.launch)
		})
}

func (a *commands) vmDeleteSnapshot() *cobra.Command {
	return a.snapshotVerb("delete-snapshot", "Remove a snapshot of a guest", "delete-snapshot removes a snapshot. "+
		"The guest itself does not change.",
		"  sudo bakeoff vm delete-snapshot web before-upgrade", "deleted",
		func(ctx context.Context, g *vm.Guest, name string) error { return g.DeleteSnapshot(ctx, name) })
}

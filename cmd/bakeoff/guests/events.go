package guests

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
)

func (a *commands) vmEvents() *cobra.Command {
	var follow, ready, asJSON bool
	c := &cobra.Command{
		Use:   "events [GUEST]",
		Short: "Print events of one guest or of all guests: created, modified, deleted",
		Long: `events prints a line for each event in the journals of the guests: create, modify,
create-snapshot, rollback-snapshot, delete-snapshot, reprovision and delete. The line of a
modify event has the path, the old value and the new value of the changed property; a change
of state is also a modify event. For a deleted guest, events prints only the deletion. With
-f, events prints new events until it is interrupted. -r does the same, and first prints an
event of type ready: from then on, no event is missed.`,
		Example: "  bakeoff vm events web\n  bakeoff vm events -f -j | jq -r 'select(.type == \"delete\").uuid'",
		Args:    cli.Between(0, 1, "GUEST"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.guests()
			if err != nil {
				return err
			}
			uuid := ""
			if len(args) > 0 {
				g, err := s.Find(args[0])
				if err != nil {
					return err
				}
				uuid = g.UUID
			}
			show := func(e vm.Event) error { return a.printEvent(e, asJSON) }
			if follow || ready {
				ctx, stop := a.Interruptible(c.Context())
				defer stop()
				since := time.Now()
				if ready {
					if err := show(vm.Event{At: since.UTC(), Type: vm.EventReady, UUID: uuid}); err != nil {
						return err
					}
				}
				return s.Follow(ctx, uuid, since, show)
			}
			all, err := s.Events(uuid)
			if err != nil {
				return err
			}
			for _, e := range all {
				if err := show(e); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print events as they happen, from now on")
	c.Flags().BoolVarP(&ready, "ready", "r", false,
		"print an event of type ready, and then events as they happen, as with --follow")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print a JSON object for each event")
	return c
}

// printEvent prints an event: with -j an object on a line, otherwise a line for each change.
func (a *commands) printEvent(e vm.Event, asJSON bool) error {
	if asJSON {
		b, err := json.Marshal(e)
		if err == nil {
			_, err = a.Out.Write(append(b, '\n'))
		}
		return err
	}
	head := []string{e.At.Format("2006-01-02T15:04:05.000Z07:00")}
	if e.UUID != "" {
		head = append(head, e.UUID)
	}
	if e.Alias != "" {
		head = append(head, "("+e.Alias+")")
	}
	head = append(head, string(e.Type))
	lines := []string{e.Name}
	if len(e.Changes) > 0 {
		lines = nil
		for _, c := range e.Changes {
			lines = append(lines, strings.TrimSpace(e.Name+" "+strings.TrimSuffix(c.String(), " ("+string(c.When)+")")))
		}
	}
	for _, l := range lines {
		if e.Why != "" {
			l += ": " + e.Why
		}
		line := strings.TrimSpace(strings.Join(head, " ") + " " + l)
		if _, err := fmt.Fprintln(a.Out, safetext.Line(line)); err != nil {
			return err
		}
	}
	return nil
}

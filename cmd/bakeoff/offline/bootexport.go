package offline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/trace"
)

func (a reader) bootExport() *cobra.Command {
	var format string
	var choice BootChoice
	var names, meanings []string
	for _, f := range trace.Formats() {
		names = append(names, f.Name)
		meanings = append(meanings, fmt.Sprintf("  %-10s %s", f.Name, f.Doc))
	}
	c := &cobra.Command{
		Use:   "export FILE|RUN",
		Short: "Write a boot in the formats of other programs",
		Long: "export writes a boot to standard output. FILE is a recording, or a file of the sources\nthat bakeoff boot " +
			"--help lists; - reads standard input. From a RUN, export writes one boot.\nThe formats are\n\n" +
			strings.Join(meanings, "\n") + `

In the formats folded and pprof, stacks begin at the main function of the kernel, if the
source records this function. What happened before the main function is in no stack. A frame
is a function, or a function and its argument. The values are own times (the time of a span
without the spans inside it), in ticks of the clock that the source read. The values are in
nanoseconds if the recording has spans of several clocks. The values of equal stacks are
added up. If a thread waited, the time counts for the function that waited. But if the
source knows the thread that caused the wait, the time counts for the functions of that
thread.`,
		Example: `  bakeoff boot export --format folded dmesg.txt | flamegraph.pl > boot.svg
  bakeoff boot export --format folded --source tslog tslog.txt
  bakeoff boot export --format perfetto runs/20260102T030405Z-boot --contender microvm > boot.json
  bakeoff boot export --format pprof dmesg.txt > boot.pb.gz && go tool pprof -top boot.pb.gz
  ssh root@machine dmesg | bakeoff boot export --format speedscope - > boot.speedscope.json`,
		Args: cli.Between(1, 1, "a file or a run"),
		RunE: func(_ *cobra.Command, args []string) error {
			if format == "" {
				return fault.New(fault.Invalid, "--format is missing; use one of %s", strings.Join(names, ", "))
			}
			r, err := ReadBoot(a.In, args[0], choice)
			if err != nil {
				return err
			}
			return trace.Write(a.Out, format, r)
		},
	}
	c.Flags().StringVar(&format, "format", "", "`name` of the format: "+strings.Join(names, ", "))
	cli.CompleteFlag(c, "format", func([]string) []string { return names })
	choice.Flags(c)
	return c
}

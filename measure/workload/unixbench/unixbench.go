// Package unixbench is the part of the BYTE UNIX benchmarks that no other
// workload covers: double-precision arithmetic, Whetstone, Dhrystone 2, programs that
// replace themselves, eight shell scripts at once, and a pipe within one process.
//
// The other tests of its index are cells of other workloads, by the same
// definitions: file copy is files with op=copy, pipe-based context switching
// is switch, and the system call overhead is syscall.
package unixbench

import (
	"context"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Refuse:  workload.OnlyUnix,
		Summary: "The index tests of the BYTE UNIX benchmarks: arithmetic, Dhrystone, execl, and shell scripts",
		Metrics: []sample.Metric{sample.Throughput("op/s",
			"rounds per second. With execl, a round replaces the program once; with shell8, a round runs all eight "+
				"scripts; with whetstone, a round is a million Whetstone instructions (1 op/s is 1 MWIPS)")},
		Source: []string{
			"B. Smith, R. Grehan et al., the BYTE UNIX Benchmarks 3 (1991), later maintained as UnixBench. bakeoff " +
				"reimplements the same definitions in one binary for all contenders, which verifies its results. " +
				"Results are not comparable with those of the C programs",
			"R. P. Weicker, \"Dhrystone Benchmark: Rationale for Version 2 and Measurement Rules\", SIGPLAN Notices 23(8), 1988",
			"H. J. Curnow, B. A. Wichmann, \"A synthetic benchmark\", The Computer Journal 19(1), 1976",
			"The six tests of UnixBench's old index: test=double, test=dhrystone, test=execl, test=shell8, files with " +
				"op=copy, switch. The workload sixtests runs them in one trial and adds up their ratios to a machine of " +
				"1991",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "unixbench",
		Params: []param.Spec{
			{Name: "test", Kind: param.Text, Default: "dhrystone", Enum: []string{"double", "dhrystone", "execl", "shell8",
				"whetstone", "pipe"},
				Doc: "which test. double: arithmetic with double-precision numbers. dhrystone: records, strings and " +
					"branches. execl: a program that replaces itself. shell8: eight shell scripts at once, with the " +
					"system's own sh and tools. whetstone: double-precision numbers and standard functions. pipe: " +
					"one process that writes 512 bytes to a pipe and reads them back"},
			workload.TimeParam,
		},
		Run:      run,
		Children: map[string]func([]string) int{execlChild: replace},
	}
}

// test is one of the tests, ready to run.
type test struct {
	do    func(n int) error
	check func() (answer string, err error)
	close func()
}

func run(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	open := map[string]func(context.Context, loop.Env) (test, error){
		"double": double, "dhrystone": dhrystone, "execl": execl, "shell8": shell8,
		"whetstone": whetstone, "pipe": pipe,
	}[p.Text("test")]
	t, err := open(ctx, env)
	if err != nil {
		return wire.Result{}, err
	}
	defer t.close()
	return loop.Timed{For: p.Duration("time"), Do: t.do}.Operations(ctx, t.check)
}

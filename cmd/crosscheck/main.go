// Command crosscheck type-checks every package for other systems, and compiles nothing.
//
//	go run ./cmd/crosscheck netbsd/amd64 windows/amd64:./cmd/bakeoff-agent
//
// An argument is a system and a processor as Go names them. After a colon follows a package: then
// only this package is checked, with what it imports of this module. To type-check takes seconds
// for a system, to compile takes minutes. What only the compiler or the linker finds, such as a
// missing body of a function, needs make cross. It exits with 1 if a package has an error, and
// with 2 if the packages cannot be listed.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() { os.Exit(run(os.Stdout, ".", os.Args[1:])) }

// run checks the module in dir.
func run(out io.Writer, dir string, targets []string) (code int) {
	for _, target := range targets {
		errs, err := check(dir, target)
		if err != nil {
			fmt.Fprintf(out, "crosscheck: %s: %v\n", target, err)
			return 2
		}
		fmt.Fprintf(out, "type-check %s\n", target)
		for _, e := range errs {
			fmt.Fprintln(out, e)
			code = 1
		}
	}
	return code
}

// check returns the errors of a target, each with file and line.
func check(dir, target string) (errs []packages.Error, err error) {
	platform, pattern, some := strings.Cut(target, ":")
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("write a system and a processor, such as netbsd/amd64")
	}
	patterns := []string{"./..."}
	config := packages.Config{Dir: dir,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")}
	if some {
		if patterns, err = imported(config, pattern); err != nil {
			return nil, err
		}
	}
	config.Mode = packages.LoadAllSyntax &^ packages.NeedTypesInfo
	found, err := packages.Load(&config, patterns...)
	if err != nil {
		return nil, err
	}
	packages.Visit(found, nil, func(p *packages.Package) { errs = append(errs, p.Errors...) })
	return errs, nil
}

// imported lists a package and the packages of its module that it imports, also indirectly.
func imported(config packages.Config, pattern string) (paths []string, err error) {
	config.Mode = packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule
	found, err := packages.Load(&config, pattern)
	packages.Visit(found, nil, func(p *packages.Package) {
		if p.Module != nil && p.Module.Main {
			paths = append(paths, p.PkgPath)
		}
	})
	return paths, err
}

// Package operate tests package operate, and the attempt logs of the SQL stores, on real
// databases: their drivers are more than the root module may know.
package operate

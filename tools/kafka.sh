#!/usr/bin/env bash
# The jars of a Kafka broker for the tests, in build/kafka, through Maven; says why not where they cannot be had. With
# `spark` those of Spark's own Kafka source, in build/kafka-spark.
# Usage: tools/kafka.sh [spark]
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = spark ]; then
  into=build/kafka-spark group=org.apache.spark artifact=spark-sql-kafka-0-10_2.13
  version=$(.venv/bin/python -c 'import pyspark; print(pyspark.__version__)')
else
  into=build/kafka group=org.apache.kafka artifact=kafka_2.13 version=3.9.1
fi
[ -f "$into/.stamp" ] && exit 0
command -v mvn >/dev/null || { echo "no Maven to have the jars of $artifact with" >&2; exit 1; }

mkdir -p "$into"
cat >"$into/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>headwater</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
# Spark is there already: of its source only what Spark does not bring.
leave_out=
[ "${1:-}" = spark ] && leave_out=-DexcludeArtifactIds=scala-library,hadoop-client-runtime,hadoop-client-api,slf4j-api,commons-logging,snappy-java
mvn -q -B -f "$into/pom.xml" dependency:copy-dependencies -DincludeScope=runtime $leave_out \
  -DoutputDirectory="$PWD/$into/jars" >"$into/log" 2>&1 ||
  { echo "Maven has no $artifact $version: see $into/log" >&2; exit 1; }
touch "$into/.stamp"

"""The schema registry: subjects, versions and compatibility, behind the REST API that Kafka's serializers speak to."""

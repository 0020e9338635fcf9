"""The one place that joins the rooms: steps, their graph, and where they run."""
